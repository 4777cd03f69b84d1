"""`hyperoffload compare`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.display import console, print_table
from app.cli.options import DEFAULT_DATABASE, Database, Force, Json, OptionError, writable

if TYPE_CHECKING:
    from profiles.comparison import LabelledProfile

LABEL = 40


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN...", help="Recorded runs, by number, label or `latest`. The first is the baseline."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="`.html` (one self-contained file), `.md`, `.csv`, `.json` or `.svg`."
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option("--baseline", metavar="RUN", help="Which of the runs differences refer to; else the first."),
    ] = None,
    force: Force = False,
    database: Database = DEFAULT_DATABASE,
    json: Json = False,
) -> None:
    """Compare two to eight recorded runs: numbers, where time went, storages that changed tier, transfers.

    Without `--output` the table of numbers is printed. Ops and storages are matched by what they are, never by time.
    `.html` and `.md` are reports; `.svg` is a picture of curves and lanes; `.csv` and `.json` hold every value.
    """
    import sys

    from app.recorded import MOST_COMPARED, load_labelled
    from db.database import open_database
    from profiles.compare import compare as compare_profiles
    from profiles.export import COMPARISON_SUFFIXES, export_comparison
    from profiles.plain import visible
    from profiles.shown import format_value
    from profiles.tables import comparison_json

    if len(runs) < 2:
        raise OptionError("a comparison needs two runs or more; `hyperoffload runs` lists them")
    if len(runs) > MOST_COMPARED:
        raise OptionError(f"a comparison takes {MOST_COMPARED} runs at most; {len(runs)} are named")
    if output is not None:
        if output.suffix not in COMPARISON_SUFFIXES:
            raise OptionError(f"{output}: name a file that ends in {', '.join(COMPARISON_SUFFIXES)}")
        writable(output, force)
    opened = open_database(database, create=False)
    try:
        profiles = [load_labelled(opened, run) for run in runs]
        first = 0 if baseline is None else _place(profiles, load_labelled(opened, baseline), baseline)
    finally:
        opened.close()
    if output is not None:
        export_comparison(profiles, output, first, overwrite=force)
        console.print(f"written to {output}", markup=False)
        return
    comparison = compare_profiles(profiles, first)
    if json:
        sys.stdout.write(comparison_json(comparison) + "\n")
        return
    for sentence in (comparison.verdict, *comparison.notes):
        console.print(sentence, markup=False)
    others = [number for number in range(len(profiles)) if number != first]
    columns = [("", "left")]
    columns += [(visible(side.name, LABEL), "right") for side in comparison.sides]
    columns += [(f"{visible(comparison.sides[number].label, LABEL)} - baseline", "right") for number in others]
    print_table(
        columns,
        [
            [
                number.name,
                *(format_value(value, number.unit) for value in number.values),
                *(format_value(value, number.unit, signed=True) for value in (number.differences[n] for n in others)),
            ]
            for number in comparison.numbers
        ],
    )


def _place(profiles: list[LabelledProfile], baseline: LabelledProfile, name: str) -> int:
    ids = [profile.run_id for profile in profiles]
    if baseline.run_id not in ids:
        raise OptionError(f"--baseline {name} is run {baseline.run_id}, which is none of the compared ones")
    return ids.index(baseline.run_id)
