"""`hyperoffload export`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.display import console
from app.cli.options import DEFAULT_DATABASE, Database, Force, OptionError, writable


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A recorded run, by number, label or `latest`.")],
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="`.json` or `.json.gz`.")],
    schedule: Annotated[bool, typer.Option("--schedule", help="Write the schedule file instead of the trace.")] = False,
    force: Force = False,
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Write a run as a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open, or its schedule.

    The trace has the compute stream, both link directions, arrows from each Store to its Prefetch and on to the op
    that waits for it, and counters of device bytes by class.
    """
    from app.recorded import load_labelled
    from db.database import open_database
    from hyperoffload_core.schedule import write_schedule
    from profiles.export import TRACE_SUFFIXES, export_trace

    if not output.name.endswith(TRACE_SUFFIXES):
        raise OptionError(f"{output}: name a file that ends in {' or '.join(TRACE_SUFFIXES)}")
    writable(output, force)
    opened = open_database(database, create=False)
    try:
        found = load_labelled(opened, run)
    finally:
        opened.close()
    if schedule:
        write_schedule(found.profile.schedule, output)
    else:
        export_trace(found.profile, found.label, output, overwrite=force)
    console.print(f"written to {output}", markup=False)
