"""`hyperoffload emit`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.display import console, print_json, print_table, progress_shown, size
from app.cli.options import Force, Json, OptionError, writable
from hyperoffload_core.errors import UserError

TARGETS = ("mindir",)


class TargetError(UserError):
    """A target that nothing is written for."""


def emit(
    schedule: Annotated[Path, typer.Argument(metavar="SCHEDULE", help="A schedule file, `.json` or `.json.gz`.")],
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="The model it was compiled from: a workload's name, or `FILE.py:FUNCTION`."
        ),
    ],
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The file to write, `.mindir`.")],
    target: Annotated[str, typer.Option("--target", metavar="KIND", help="`mindir` is the one there is.")] = "mindir",
    weights: Annotated[
        bool,
        typer.Option(
            "--weights/--no-weights",
            help="Values of the parameters in the file (up to 1 GiB), or to be handed in when it is loaded.",
        ),
    ] = True,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a model with a compiled schedule inside, for MindSpore on Ascend.

    The file is MindSpore's own (MindIR), with the cache operators MindSpore has for Ascend (`CopyToHost`,
    `CopyToDevice`, `UpdateToRemote`, `UpdateToDevice`, `Detach`) and the dependencies that force the schedule's order.
    It is run with `mindspore.nn.GraphCell(mindspore.load("step.mindir"))`; without weights add
    `params_init={p.name: p for p in cell.get_parameters()}`. Not tried on Ascend: see docs/emit.md.

    Example: `hyperoffload emit llama.json.gz llama3-8b-train --no-weights llama.mindir`
    """
    from app.actions import emit_mindir
    from hyperoffload_core.given import read_verified

    if target not in TARGETS:
        raise TargetError(f"there is no target {target!r}; {' and '.join(TARGETS)} is what can be written")
    if output.suffix != ".mindir":
        raise OptionError(f"{output}: MindSpore loads files that end in .mindir")
    writable(output, force)
    read_verified(schedule)  # before the long work begins
    with progress_shown() as progress:
        done = emit_mindir(model, schedule, output, weights, progress, lambda: False)
    if json:
        print_json(
            {
                "file": str(output),
                "bytes": done.bytes,
                "weights": done.weights,
                "cache_operators": done.operators,
                "stays": done.stays,
                "in_pool": list(done.in_pool),
            }
        )
        return
    rows = [[name, f"{count:,}"] for name, count in done.operators.items()]
    print_table([("cache operator", "left"), ("nodes", "right")], rows)
    for name, reason in done.stays.items():
        console.print(f"note: {name} stays on the device: {reason}", markup=False)
    if done.in_pool:
        console.print(f"{len(done.in_pool):,} parameters start and end the step in remote memory", markup=False)
    if not done.weights:
        console.print(
            "without weights: hand the parameters to GraphCell (params_init), or it runs on whatever memory holds",
            markup=False,
        )
    console.print(f"written to {output} ({size(done.bytes)}); not tried on Ascend", markup=False)
