"""`hyperoffload compare`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.display import console, print_table
from app.cli.options import DEFAULT_DATABASE, Database, Force, Json, OptionError, writable


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN...", help="Recorded runs, by number, label or `latest`. The first is the baseline."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="`.html` (one self-contained file), `.csv` or `.json`."),
    ] = None,
    force: Force = False,
    database: Database = DEFAULT_DATABASE,
    json: Json = False,
) -> None:
    """Compare two or more recorded runs: numbers, ops, storages that changed tier, transfers.

    Without `--output` the table of numbers is printed. Ops and storages are matched by name, never by time.
    """
    import sys

    from app.recorded import load_labelled
    from db.database import open_database
    from profiles.compare import compare as compare_profiles
    from profiles.export import COMPARISON_SUFFIXES, export_comparison
    from profiles.report import format_value
    from profiles.tables import comparison_json

    if len(runs) < 2:
        raise OptionError("a comparison needs two runs or more; `hyperoffload runs` lists them")
    if output is not None:
        if output.suffix not in COMPARISON_SUFFIXES:
            raise OptionError(f"{output}: name a file that ends in {', '.join(COMPARISON_SUFFIXES)}")
        writable(output, force)
    opened = open_database(database, create=False)
    try:
        profiles = [load_labelled(opened, run) for run in runs]
    finally:
        opened.close()
    if output is not None:
        export_comparison(profiles, output, overwrite=force)
        console.print(f"written to {output}", markup=False)
        return
    comparison = compare_profiles(profiles)
    if json:
        sys.stdout.write(comparison_json(comparison) + "\n")
        return
    console.print(comparison.verdict, markup=False)
    columns = [("", "left")]
    for side in comparison.sides:
        columns.append((f"{side.label} ({side.kind})", "right"))
    for side in comparison.sides[1:]:
        columns.append((f"{side.label} - first", "right"))
    print_table(
        columns,
        [
            [
                number.name,
                *(format_value(value, number.unit) for value in number.values),
                *(format_value(value, number.unit, signed=True) for value in number.differences[1:]),
            ]
            for number in comparison.numbers
        ],
    )
