"""What `hyperoffload explain` prints of the graph: the neighbourhood of an op or a storage, and the layers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from app.cli.display import console, print_table
from hyperoffload_core.sizes import format_bytes, format_ns

if TYPE_CHECKING:
    from app.dashboard.views.graph_layers import LayerBox, Layers
    from app.dashboard.views.graph_links import Node
    from app.surroundings import Surroundings

COLUMNS = (
    ("", "left"),
    ("node", "left"),
    ("op or move", "left"),
    ("order", "right"),
    ("name", "left"),
    ("what", "left"),
    ("waits for", "left"),
)

LAYER_COLUMNS = (
    ("layer", "left"),
    ("phase", "left"),
    ("ops", "right"),
    ("time", "right"),
    ("touches", "right"),
    ("by class", "left"),
    ("reads most of", "left"),
)
MOST_CLASSES, MOST_SOURCES = 3, 2


def layers_document(found: Layers) -> dict[str, Any]:
    """Layers by phase as plain data, in the order of their first op, and the bytes one writes and another reads."""
    return {
        "layers": [
            {
                "layer": box.layer,
                "phase": box.phase,
                "ops": box.ops,
                "time_ns": box.time_ns,
                "bytes": box.bytes,
                "bytes_by_class": box.bytes_by_class,
            }
            for box in found.boxes
        ],
        "flows": [{"before": flow.before, "after": flow.after, "bytes": flow.bytes} for flow in found.flows],
        "left_out": found.left_out,
    }


def print_layers(found: Layers) -> None:
    rows = [
        [
            box.layer,
            box.phase,
            f"{box.ops:,}",
            format_ns(box.time_ns),
            format_bytes(box.bytes),
            _classes(box),
            _sources(found, number),
        ]
        for number, box in enumerate(found.boxes)
    ]
    print_table(LAYER_COLUMNS, rows)
    if found.left_out:
        console.print(f"and {found.left_out:,} more layers", style="dim")
    console.print()


def _classes(box: LayerBox) -> str:
    largest = sorted(box.bytes_by_class.items(), key=lambda pair: -pair[1])[:MOST_CLASSES]
    return ", ".join(f"{tensor_class} {format_bytes(size)}" for tensor_class, size in largest)


def _sources(found: Layers, number: int) -> str:
    """The layers whose results a layer reads most bytes of."""
    into = sorted((flow for flow in found.flows if flow.after == number), key=lambda flow: -flow.bytes)
    named = ((found.boxes[flow.before], flow.bytes) for flow in into[:MOST_SOURCES])
    return ", ".join(f"{box.layer} {box.phase} {format_bytes(size)}" for box, size in named)


def around_document(found: Surroundings) -> dict[str, Any]:
    """The neighbourhood as plain data: nodes from what comes first, and edges (data, control, wait)."""
    return {
        "name": found.name,
        "stage": found.stage,
        "hops": found.hops,
        "nodes": [
            {"node": _key(node), "centre": node in found.region.centre, **asdict(label)}
            for node, label in found.labels.items()
        ],
        "edges": [
            {"before": _key(before), "after": _key(after), "kind": kind} for before, after, kind in found.region.edges
        ],
        "left_out": found.region.left_out,
    }


def print_around(found: Surroundings) -> None:
    hops = f"{found.hops} hop{'' if found.hops == 1 else 's'}"
    count = f"{len(found.labels)} node{'' if len(found.labels) == 1 else 's'}"
    console.print(
        f"around {found.name}: {count} within {hops} in the {found.stage} graph", markup=False, soft_wrap=True
    )
    waits: dict[Node, list[str]] = {node: [] for node in found.labels}
    for before, after, kind in found.region.edges:
        waits[after].append(_key(before) + " (order)" * (kind == "control"))
    rows = [
        [
            "*" if node in found.region.centre else "",
            _key(node),
            label.title,
            label.number,
            label.name,
            label.note,
            ", ".join(waits[node]),
        ]
        for node, label in found.labels.items()
    ]
    print_table(COLUMNS, rows)
    if found.region.left_out:
        console.print(f"and {found.region.left_out:,} more, farther away", style="dim")
    console.print()


def _key(node: Node) -> str:
    return f"{node[0]}:{node[1]}"
