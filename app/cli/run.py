"""`hyperoffload run`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from app.cli.display import SESSION_COLUMNS, console, print_json, print_table, progress_shown, session_cells
from app.cli.display import session_document as document_of
from app.cli.options import (
    DEFAULT_DATABASE,
    Database,
    Effort,
    GraphMode,
    Json,
    Limit,
    Strategy,
    StrategyOptions,
    policy_from_options,
    with_effort,
)
from hyperoffload_core.policy import Policy


def run(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A workload's name, `FILE.py:FUNCTION`, or a recorded run (its number, or `latest`) to run again.",
        ),
    ],
    limit: Limit = None,
    policy: Annotated[
        list[Path] | None,
        typer.Option("--policy", "-p", metavar="FILE", help="A policy file; several are run interleaved."),
    ] = None,
    strategy: Strategy = None,
    option: StrategyOptions = None,
    effort: Effort = None,
    schedule: Annotated[
        list[Path] | None,
        typer.Option(
            "--schedule", metavar="FILE", help="A compiled schedule to run as it is; several are interleaved."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, max=1000, help="Measured steps of each schedule.")] = 5,
    link_bandwidth: Annotated[
        str, typer.Option("--link-bandwidth", metavar="RATE", help="Pace copies to this rate, or `unlimited`.")
    ] = "unlimited",
    graph_mode: GraphMode = False,
    database: Database = DEFAULT_DATABASE,
    label: Annotated[str, typer.Option(help="A name for the recorded run.")] = "",
    json: Json = False,
) -> None:
    """Execute a model on this machine under one policy or several, beside the same step without offload.

    Captures the model, measures its ops, compiles each policy with the measured durations, executes everything
    interleaved, checks that results and parameters are bit-identical to MindSpore's own graph-mode run, and records
    it all. Your model is imported in a process of its own; modules called `app`, `db` or `profiles` beside it are
    yours.

    A schedule file (`hyperoffload compile … --output FILE`) keeps its order, events and addresses; it must have been
    compiled from this model, and is timed anew with what the ops take here.

    With `--graph-mode` MindSpore's own compiler puts each schedule into the model's graph and its graph mode runs it
    (docs/graph-mode.md); this needs a C++ compiler, and schedules run one after the other.

    Example: `hyperoffload run train.py:build --limit 60% --link-bandwidth 4GB/s --steps 10`
    """
    options = with_effort(option, effort)
    asked = bool(limit or policy or strategy or options)
    default = "60%" if limit is None and policy is None else None
    files: list[Path | None] = [*policy] if policy else [None] if asked or not schedule else []
    policies = [policy_from_options(file, limit, strategy, options, default) for file in files]
    if schedule:
        # Before the long work begins.
        from hyperoffload_core.given import read_verified

        for path in schedule:
            read_verified(path)
    run_policies(
        model,
        policies,
        steps,
        link_bandwidth,
        database,
        label,
        json,
        saved=policy is not None,
        files=schedule or (),
        graph_mode=graph_mode,
    )


def run_policies(
    model: str,
    policies: list[Policy],
    steps: int,
    link_bandwidth: str,
    database: Path,
    label: str,
    json: bool,
    saved: bool,
    files: Sequence[Path] = (),
    graph_mode: bool = False,
) -> None:
    """Run a session with progress, and print its table; ``files`` are schedules to run beside the policies."""
    from app.actions import names_run
    from app.policies import save_version
    from app.requests import RunRequest
    from app.sessions import policy_titles, run_model, session_rows
    from db.database import open_database
    from hyperoffload_core.sizes import parse_rate

    parse_rate(link_bandwidth)
    opened = open_database(database, create=not names_run(model))
    try:
        request = RunRequest(
            model=model,
            policies=tuple(policies),
            schedule_files=tuple(files),
            steps=steps,
            link_bandwidth=link_bandwidth,
            graph_mode=graph_mode,
            policy_version_ids=tuple(save_version(opened, p) if saved else None for p in policies),
            label=label,
        )
        with progress_shown() as progress:
            outcome = run_model(request, opened, progress, lambda: False)
        titles = list(policy_titles(policies, files).values())
        rows = [(title, *pair) for title, pair in zip(titles, session_rows(opened, outcome), strict=True)]
    finally:
        opened.close()
    if json:
        print_json(
            {
                "database": str(opened.path),
                "session": outcome.session,
                "capture_ns": outcome.capture_ns,
                "note": outcome.note,
                "policies": [
                    document_of(*row) | {"compile_ns": ns}
                    for row, ns in zip(rows, outcome.compile_ns.values(), strict=True)
                ],
            }
        )
        return
    in_turn = "" if graph_mode else ", interleaved"  # the conditions say it where it is not so
    console.print(
        f"{rows[0][1].model}: {rows[0][1].conditions}; {rows[0][1].step_count} steps each{in_turn}", markup=False
    )
    print_table(SESSION_COLUMNS, [session_cells(*row) for row in rows])
    if outcome.note:
        console.print(f"note: {outcome.note}", markup=False)
    console.print(f"recorded as runs {', '.join(str(r) for r in outcome.run_ids)} in {opened.path}", markup=False)
