"""`hyperoffload compile`"""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from app.cli.display import console, print_json, print_table, progress_shown, size, time
from app.cli.options import (
    DEFAULT_DATABASE,
    Database,
    Effort,
    Force,
    Hardware,
    HardwareNumbers,
    Json,
    Limit,
    LinkBandwidth,
    OptionError,
    PolicyFile,
    Strategy,
    StrategyOptions,
    hardware_overrides,
    policy_from_options,
    with_effort,
    writable,
)
from hyperoffload_core.policy import Policy, rule_size
from hyperoffload_core.schedule import Metrics, Schedule, write_schedule
from profiles.plain import visible


def compile_command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A workload's name, `FILE.py:FUNCTION`, a graph file, or a recorded run (its number, or `latest`).",
        ),
    ],
    hardware: Hardware = None,
    limit: Limit = None,
    policy: PolicyFile = None,
    strategy: Strategy = None,
    option: StrategyOptions = None,
    effort: Effort = None,
    link_bandwidth: LinkBandwidth = None,
    hardware_number: HardwareNumbers = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="The schedule file, `.json` or `.json.gz`.")
    ] = None,
    force: Force = False,
    database: Database = DEFAULT_DATABASE,
    label: Annotated[str, typer.Option(help="A name for the recorded prediction.")] = "",
    json: Json = False,
) -> None:
    """Compile a model for a hardware under a memory limit, check the schedule and record its prediction.

    Op durations come from the roofline of the hardware (`ascend-910c` unless named). A recorded run is compiled again
    for its own hardware with its own durations, measured ones where it was measured, unless `--hardware` is given.

    Example: `hyperoffload compile llama3-8b-train --hardware ascend-910c --limit 50% --output llama.json.gz`
    """
    from app.actions import compile_model, names_run
    from app.policies import save_version
    from app.requests import CompileRequest
    from db.database import open_database

    if output is not None:
        if not output.name.endswith((".json", ".json.gz")):
            raise OptionError(f"{output}: a schedule file ends in .json or .json.gz")
        writable(output, force)
    asked = policy_from_options(policy, limit, strategy, with_effort(option, effort), None)
    began = monotonic()
    opened = open_database(database, create=not names_run(model))
    try:
        request = CompileRequest(
            model=model,
            policy=asked,
            hardware=hardware,
            overrides=hardware_overrides(link_bandwidth, hardware_number),
            policy_version_id=save_version(opened, asked) if policy is not None else None,
            label=label,
        )
        with progress_shown() as progress:
            done = compile_model(request, opened, progress, lambda: False)
    finally:
        opened.close()
    if output is not None:
        write_schedule(done.schedule, output)
    elapsed = monotonic() - began
    if json:
        rules = [
            {"rule": text, "storages": count, "bytes": taken} for text, count, taken in _rules(done.schedule, asked)
        ]
        print_json(
            _document(done.schedule, elapsed)
            | {"rules": rules, "run": done.run_id, "file": str(output) if output else None}
        )
        return
    _print(done.schedule)
    storages = f"{len(done.schedule.graph.original.storages):,} storages"
    for position, (text, count, taken) in enumerate(_rules(done.schedule, asked), 1):
        told = f"rule {position} ({text}) matches {count:,} of {storages}, {size(taken)}"
        console.print(told, markup=False, soft_wrap=True)
    console.print(f"took {elapsed:.1f} s; recorded as run {done.run_id} in {opened.path}", markup=False)
    if output is not None:
        console.print(f"written to {output}", markup=False)


def _document(schedule: Schedule, elapsed_s: float) -> dict[str, Any]:
    return {
        "graph": schedule.graph.name,
        "hardware": schedule.hardware.name,
        "strategy": schedule.strategy,
        "memory_limit_bytes": schedule.memory_limit_bytes,
        "duration_source": schedule.duration_source,
        "ops": len(schedule.graph.ops),
        "recomputed_ops": len(_recomputed(schedule)),
        "transfers": len(schedule.transfers),
        "metrics": {name: getattr(schedule.metrics, name) for name in Metrics.__slots__},
        "notes": list(schedule.notes),
        "elapsed_s": round(elapsed_s, 3),
    }


def _rules(schedule: Schedule, policy: Policy) -> list[tuple[str, int, int]]:
    """Each rule with how many storages of the model it matches and their bytes."""
    return [(rule.text, *rule_size(schedule.graph.original, rule)) for rule in policy.rules]


def _recomputed(schedule: Schedule) -> list[int]:
    """Durations in ns of the ops that run again."""
    return [schedule.durations_ns[op.id] for op in schedule.graph.ops if op.recompute_of is not None]


def _print(schedule: Schedule) -> None:
    metrics, again = schedule.metrics, _recomputed(schedule)
    console.print(
        f"{visible(schedule.graph.name)} on {schedule.hardware.title}, {schedule.strategy} (predicted)", markup=False
    )
    above = metrics.step_ns / metrics.lower_bound_ns - 1 if metrics.lower_bound_ns else 0.0
    within = max(schedule.memory_limit_bytes, metrics.reserved_bytes)  # over the limit, it is a bound for what it takes
    print_table(
        [("", "left"), ("", "right")],
        [
            ["memory limit", size(schedule.memory_limit_bytes)],
            ["device memory", size(metrics.reserved_bytes)],
            ["live peak", size(metrics.peak_live_bytes)],
            ["step", time(metrics.step_ns)],
            ["compute", time(metrics.compute_ns)],
            *([["run again", f"{len(again):,} ops, {time(sum(again))} of compute"]] if again else []),
            [f"lower bound in {size(within)}", f"{time(metrics.lower_bound_ns)} (step is {above:.1%} above)"],
            ["blocking", time(metrics.blocking_ns)],
            ["exposed", time(metrics.exposed_ns)],
            ["moved out", size(metrics.bytes_out)],
            ["moved in", size(metrics.bytes_in)],
            ["transfers", f"{len(schedule.transfers):,}"],
            ["op durations", schedule.duration_source],
        ],
    )
    for note in schedule.notes:
        console.print(f"note: {note}", markup=False)
