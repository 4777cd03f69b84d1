"""`hyperoffload jobs`"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.display import console, print_json, print_table, time
from app.cli.options import DEFAULT_DATABASE, Database, Json, OptionError

if TYPE_CHECKING:
    from app.jobs import JobView

COLUMNS = (
    ("job", "right"),
    ("kind", "left"),
    ("model", "left"),
    ("state", "left"),
    ("done", "right"),
    ("for", "right"),
    ("runs", "left"),
    ("message", "left"),
)


def jobs(
    cancel: Annotated[
        int | None, typer.Option("--cancel", metavar="JOB", help="Cancel this job, and wait until it has ended.")
    ] = None,
    log: Annotated[int | None, typer.Option("--log", metavar="JOB", help="Print the log of this job.")] = None,
    limit: Annotated[int, typer.Option("--last", min=1, help="Show so many jobs, newest first.")] = 30,
    database: Database = DEFAULT_DATABASE,
    json: Json = False,
) -> None:
    """List what the browser started in the background, newest first; print the log of one, or cancel it.

    A job compiles a policy, or compiles and runs it, in a process of its own. A cancelled one is asked to stop, and
    ended with all its processes when it has not stopped within seconds; runs it had begun are marked cancelled. With
    --json each job has its log and all that it was asked for.

    Example: `hyperoffload jobs --cancel 3`
    """
    from app.jobs import cancel_job, job_view, job_views

    if log is not None:
        if cancel is not None or json:
            raise OptionError("--log goes without --cancel and --json")
        console.print(job_view(database, log).log, markup=False, end="", soft_wrap=True)
        return
    if cancel is not None:
        if (before := job_view(database, cancel)).ended:
            raise OptionError(f"job {cancel} has ended ({before.state}); there is nothing to cancel")
        cancel_job(database, cancel, wait=True)
    found = [job_view(database, cancel)] if cancel is not None else job_views(database, limit)
    if json:
        print_json([asdict(job) for job in found])
    elif cancel is not None:
        console.print(f"job {cancel} {found[0].state}", markup=False)
    elif found:
        print_table(COLUMNS, [_cells(job) for job in found])
    else:
        console.print(f"{database} holds no job", markup=False, soft_wrap=True)


def _cells(job: JobView) -> list[str]:
    return [
        str(job.id),
        job.kind,
        str(job.request.get("model", "")),
        "cancelling" if job.cancel_requested and not job.ended else job.state,
        f"{job.done / job.total:.0%}" if job.total else "-",
        time(round(job.elapsed_s * 1e9)),
        ", ".join(map(str, job.run_ids)),
        job.message,
    ]
