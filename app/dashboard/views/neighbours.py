"""The neighbourhood of an op or a storage in the graph, laid out in layers from left to right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx

from app.dashboard import theme
from app.dashboard.views.lane_traces import plain
from hyperoffload_core.graphview import neighbourhood
from hyperoffload_core.ir import Graph

# Ops drawn in one layer; the first ones in captured order, the rest is counted.
MOST_IN_LAYER = 6
WIDTH_LETTERS = 18


@dataclass(frozen=True, slots=True)
class Node:
    """An op at a place: ``layer`` from the left, ``row`` from the top (may be a half)."""

    op: int
    layer: int
    row: float
    text: str
    hover: str
    centre: bool


@dataclass(frozen=True)
class Neighbourhood:
    """``around`` is "op" or "storage". ``edges`` are (from op, to op, storages they share); ``left_out`` counts the ops
    that found no room."""

    around: str
    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int, tuple[int, ...]], ...]
    left_out: int


def neighbours(graph: Graph, kind: str, identity: int) -> Neighbourhood:
    """Around an op: what it depends on and what depends on it. Of a storage: the ops that access it, or
    what is around them where that is one op only."""
    if kind == "storage" and len(graph.accesses[identity]) == 1:
        kind, identity = "op", graph.accesses[identity][0].op
    if kind == "op":
        view = neighbourhood(graph, op=identity, hops=1)
        centre = {identity}
        kept = view.edge_subgraph([e for e in view.edges if identity in e]).copy()
        if identity not in kept:
            kept.add_node(identity)
    else:
        kept = neighbourhood(graph, storage=identity, hops=0)
        centre = set(kept.nodes)
    layers = _layers(kept)
    nodes: list[Node] = []
    left_out = 0
    for number, layer in enumerate(layers):
        shown = layer[:MOST_IN_LAYER]
        left_out += len(layer) - len(shown)
        for row, op in enumerate(shown):
            o = graph.ops[op]
            hover = f"<b>{plain(o.name)}</b><br>{plain(o.scope)}<br>{o.phase}"
            nodes.append(Node(op, number, row - (len(shown) - 1) / 2, _short(o.primitive), hover, op in centre))
    drawn = {node.op for node in nodes}
    edges = tuple((a, b, kept.edges[a, b]["storages"]) for a, b in kept.edges if a in drawn and b in drawn)
    return Neighbourhood(kind, tuple(nodes), edges, left_out)


def figure(found: Neighbourhood, graph: Graph) -> dict[str, Any]:
    """Ops as labelled boxes, dependencies as lines; hover says which storages two ops share."""
    place = {node.op: (node.layer, -node.row) for node in found.nodes}
    lines_x: list[float | None] = []
    lines_y: list[float | None] = []
    middles: list[tuple[float, float, str]] = []
    for before, after, shared in found.edges:
        (x0, y0), (x1, y1) = place[before], place[after]
        lines_x += [x0, x1, None]
        lines_y += [y0, y1, None]
        names = "<br>".join(plain(graph.storages[s].name) for s in shared[:6]) or "order only"
        middles.append(((x0 + x1) / 2, (y0 + y1) / 2, names))
    rows = max((sum(n.layer == layer for n in found.nodes) for layer in {n.layer for n in found.nodes}), default=1)
    layers = max((node.layer for node in found.nodes), default=0)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "x": lines_x,
                "y": lines_y,
                "line": {"color": "#9AA5B5", "width": 1.2},
                "hoverinfo": "skip",
            },
            {
                "type": "scatter",
                "mode": "markers",
                "x": [x for x, _, _ in middles],
                "y": [y for _, y, _ in middles],
                "marker": {"size": 5, "color": "#9AA5B5"},
                "hovertext": [text for _, _, text in middles],
                "hovertemplate": "%{hovertext}<extra></extra>",
            },
            {
                "type": "scatter",
                "mode": "markers+text",
                "x": [node.layer for node in found.nodes],
                "y": [-node.row for node in found.nodes],
                "text": [node.text for node in found.nodes],
                "textposition": "top center",
                "textfont": {"size": 11},
                "marker": {
                    "size": [15 if node.centre else 12 for node in found.nodes],
                    "symbol": "square",
                    "opacity": 1,
                    "color": [theme.CURSOR if node.centre else theme.COMPUTE for node in found.nodes],
                },
                "customdata": [node.op for node in found.nodes],
                "hovertext": [node.hover for node in found.nodes],
                "hovertemplate": "%{hovertext}<extra></extra>",
            },
        ],
        "layout": {
            **theme.figure_layout(76 + 46 * rows),
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "dragmode": False,
            "hovermode": "closest",
            "xaxis": {"visible": False, "range": [-0.55, layers + 0.55], "fixedrange": True},
            "yaxis": {"visible": False, "range": [-rows / 2 - 0.1, rows / 2 + 0.4], "fixedrange": True},
        },
    }


def _layers(view: nx.DiGraph) -> list[list[int]]:
    """Ops by the longest way from an op without predecessor here; of a long chain only what fits a narrow panel."""
    layers = [sorted(layer) for layer in nx.topological_generations(view)]
    if len(layers) <= 4:
        return layers
    # A storage that many ops access one after the other: the first two and the last two say most.
    return [*layers[:2], *layers[-2:]]


def _short(text: str) -> str:
    return text if len(text) <= WIDTH_LETTERS else text[: WIDTH_LETTERS - 1] + "…"
