"""`hyperoffload export`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.display import console
from app.cli.options import DEFAULT_DATABASE, Database, Force, OptionError, writable


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A recorded run, by number, label or `latest`.")],
    output: Annotated[
        Path,
        typer.Option("--output", metavar="FILE", help="`.json` or `.json.gz`; `.csv` for --tiers and --addresses."),
    ],
    schedule: Annotated[bool, typer.Option("--schedule", help="Write the schedule file instead of the trace.")] = False,
    tiers: Annotated[
        bool, typer.Option("--tiers", help="When each storage of a step is on the device, on its way, in the pool.")
    ] = False,
    addresses: Annotated[
        bool, typer.Option("--addresses", help="Each stay of a storage of a step on the device, with its address.")
    ] = False,
    step: Annotated[
        int | None, typer.Option("--step", min=0, help="The step of --tiers and --addresses; the median unless named.")
    ] = None,
    force: Force = False,
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Write a run as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open, its schedule, or where
    its storages were.

    The trace has the compute stream, both link directions, arrows from each Store to its Prefetch and on to the op
    that waits for it, and counters of device bytes by class. Times in CSV files are ns from the start of the step.
    """
    from app.explaining import step_profile
    from app.recorded import load_labelled
    from db.database import open_database
    from hyperoffload_core.files import write_whole
    from hyperoffload_core.schedule import write_schedule
    from profiles.export import TRACE_SUFFIXES, export_trace
    from profiles.places import addresses_csv, tiers_csv

    if schedule + tiers + addresses > 1:
        raise OptionError("--schedule, --tiers and --addresses are files of their own; name one of them")
    suffixes = (".csv",) if tiers or addresses else TRACE_SUFFIXES
    if not output.name.endswith(suffixes):
        raise OptionError(f"{output}: name a file that ends in {' or '.join(suffixes)}")
    writable(output, force)
    opened = open_database(database, create=False)
    try:
        found = load_labelled(opened, run)
    finally:
        opened.close()
    if tiers or addresses:
        table = tiers_csv if tiers else addresses_csv
        write_whole(output, table(*step_profile(found.profile, step)).encode(errors="replace"))
    elif schedule:
        write_schedule(found.profile.schedule, output)
    else:
        export_trace(found.profile, found.label, output, overwrite=force)
    console.print(f"written to {output}", markup=False)
