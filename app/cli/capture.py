"""`hyperoffload capture`"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from app.cli.display import console, print_json, print_table, progress_shown, size
from app.cli.options import Force, Json, OptionError, writable
from hyperoffload_core.graphfile import write_graph
from hyperoffload_core.ir import TENSOR_CLASSES, Graph

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A workload's name, such as `llama3-8b-train`, or `FILE.py:FUNCTION` of your own."
    ),
]


def capture(
    model: Model,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="`.json` or `.json.gz`.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Capture a model's graph through MindSpore's own front end, and write it to a file.

    The function takes no arguments and returns a cell, or a function as `mindspore.jit` takes it, and a tuple of its
    inputs. A training step (`TrainOneStepCell`) is captured whole: forward, backward, optimizer. The graph file can be
    compiled on any machine, without the model:
    `hyperoffload compile graph.json.gz --hardware ascend-910c --limit 50%`.
    """
    from app.actions import capture_graph

    if output is not None:
        if not output.name.endswith((".json", ".json.gz")):
            raise OptionError(f"{output}: a graph file ends in .json or .json.gz")
        writable(output, force)
    with progress_shown() as progress:
        content = capture_graph(model, progress, lambda: False)
    if output is not None:
        write_graph(content, output)
    graph = content.graph
    counts = {
        "ops": len(graph.ops),
        "storages": len(graph.storages),
        "bytes_by_class": {c: n for c in TENSOR_CLASSES if (n := _bytes(graph, c))},
        "ops_by_phase": dict(Counter(op.phase for op in graph.ops)),
    }
    if json:
        print_json({"name": graph.name, "hash": graph.hash, "file": str(output) if output else None} | counts)
        return
    console.print(
        f"{graph.name}: {len(graph.ops):,} ops, {len(graph.storages):,} storages, {graph.hash[:12]}", markup=False
    )
    print_table(
        [("class", "left"), ("storages", "right"), ("bytes", "right")],
        [
            [c, f"{sum(s.tensor_class == c for s in graph.storages):,}", size(_bytes(graph, c))]
            for c in TENSOR_CLASSES
            if _bytes(graph, c)
        ],
    )
    for note in graph.notes:
        console.print(f"note: {note}", markup=False)
    if output is not None:
        console.print(f"written to {output}", markup=False)


def _bytes(graph: Graph, tensor_class: str) -> int:
    return sum(s.bytes for s in graph.storages if s.tensor_class == tensor_class)
