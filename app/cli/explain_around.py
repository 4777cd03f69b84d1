"""What `hyperoffload explain --around` prints: the neighbourhood of an op or a storage in the graph."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from app.cli.display import console, print_table

if TYPE_CHECKING:
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
