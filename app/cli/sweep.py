"""`hyperoffload sweep`"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.display import console, print_json, print_table, progress_shown, size, time
from app.cli.options import (
    DEFAULT_DATABASE,
    Database,
    Force,
    Hardware,
    HardwareNumbers,
    Json,
    LinkBandwidth,
    OptionError,
    PolicyFile,
    hardware_overrides,
    policy_from_options,
    writable,
)

if TYPE_CHECKING:
    from app.predicting import Prediction

_COLUMNS = (
    "strategy",
    "limit_bytes",
    "step_ns",
    "lower_bound_ns",
    "blocking_ns",
    "exposed_ns",
    "reserved_bytes",
    "peak_live_bytes",
    "bytes_out",
    "bytes_in",
    "over_bytes",
    "problem",
)


def sweep(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A workload's name, `FILE.py:FUNCTION`, a graph file, or a recorded run (its number, or `latest`).",
        ),
    ],
    limits: Annotated[
        str | None,
        typer.Option("--limits", metavar="LIST", help="Memory limits: `90%,75%,48GiB`; as on the Tune page if absent."),
    ] = None,
    strategies: Annotated[
        str | None,
        typer.Option("--strategies", metavar="LIST", help="Strategies; `hyperoffload,reactive` if absent; `all`."),
    ] = None,
    hardware: Hardware = None,
    policy: PolicyFile = None,
    link_bandwidth: LinkBandwidth = None,
    hardware_number: HardwareNumbers = None,
    output: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the points as CSV, times in ns, sizes in bytes.")
    ] = None,
    force: Force = False,
    database: Database = DEFAULT_DATABASE,
    json: Json = False,
) -> None:
    """Predict strategies over memory limits: the curve of the Tune page as a table.

    Every point is compiled at effort `fast` and verified; nothing is recorded. The rules of `--policy` hold for all
    strategies, its options for its own. A strategy that does not keep its limit says by how much it is over.

    Example: `hyperoffload sweep run:3 --limits 90%,75%,60% --strategies hyperoffload,reactive --csv points.csv`
    """
    from app.actions import compile_problem, names_run
    from app.predicting import sweep as predictions
    from app.predicting import sweep_limits, sweep_policies
    from app.requests import CompileRequest
    from db.database import open_database
    from hyperoffload_core.analysis.bounds import smallest_feasible_limit
    from hyperoffload_core.analysis.liveness import live_peak_bytes

    base = policy_from_options(policy, None, None, None, None)
    chosen = _strategies(strategies)
    asked_limits = _listed(limits) if limits is not None else None
    for limit in asked_limits or ():
        policy_from_options(None, limit, None, None, None)
    if output is not None:
        writable(output, force)
    opened = open_database(database, create=False) if names_run(model) else None
    try:
        request = CompileRequest(
            model=model, policy=base, hardware=hardware, overrides=hardware_overrides(link_bandwidth, hardware_number)
        )
        with progress_shown() as progress:
            problem = compile_problem(request, opened, progress, lambda: False)
            graph = problem.content.graph
            if asked_limits is None:
                asked_limits = list(sweep_limits(live_peak_bytes(graph), smallest_feasible_limit(graph).bytes))
            policies = sweep_policies(base, chosen, asked_limits)
            points = []
            for number, point in enumerate(predictions(problem, policies), 1):
                points.append(point)
                progress(number, len(policies), f"predicting {number} of {len(policies)} points")
    finally:
        if opened is not None:
            opened.close()
    order = {name: number for number, name in enumerate(chosen)}
    points.sort(key=lambda p: (order[p.strategy], -p.limit_bytes))
    documents = [_document(p) for p in points]
    if output is not None:
        with output.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _COLUMNS)
            writer.writeheader()
            writer.writerows(documents)
    if json:
        print_json(documents)
        return
    console.print(f"{graph.name} on {problem.hardware.title} (predicted, effort fast)", markup=False, soft_wrap=True)
    _print(points)
    console.print(f"op durations: {problem.durations.source}", markup=False, soft_wrap=True)
    if output is not None:
        console.print(f"written to {output}", markup=False, soft_wrap=True)


def _strategies(text: str | None) -> list[str]:
    from hyperoffload_core.strategies import STRATEGIES, find_strategy

    if text == "all":
        return list(STRATEGIES)
    return [find_strategy(name).name for name in _listed(text or "hyperoffload,reactive")]


def _listed(text: str) -> list[str]:
    parts = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise OptionError(f"{text!r} is an empty list; write values with commas between, such as 90%,75%")
    return parts


def _document(p: Prediction) -> dict[str, Any]:
    metrics = {
        name: None if p.metrics is None else getattr(p.metrics, name)
        for name in _COLUMNS
        if name not in ("strategy", "limit_bytes", "over_bytes", "problem")
    }
    whole = {"strategy": p.strategy, "limit_bytes": p.limit_bytes, **metrics, "over_bytes": p.over_bytes}
    return whole | {"problem": p.problem}


def _print(points: list[Prediction]) -> None:
    rows = []
    for p in points:
        m = p.metrics
        if m is None:
            rows.append([p.strategy, size(p.limit_bytes), "-", "-", "-", "-", "-", p.problem])
            continue
        above = f"{m.step_ns / m.lower_bound_ns - 1:.1%}" if m.lower_bound_ns else "-"
        over = f"over the limit by {size(p.over_bytes)}" if p.over_bytes else ""
        moved = size(m.bytes_out + m.bytes_in)
        memory = size(m.reserved_bytes)
        rows.append([p.strategy, size(p.limit_bytes), time(m.step_ns), above, time(m.blocking_ns), memory, moved, over])
    columns = [("strategy", "left"), ("limit", "right"), ("step", "right"), ("above bound", "right")]
    columns += [("blocking", "right"), ("device memory", "right"), ("moved", "right"), ("", "left")]
    print_table(columns, rows)
