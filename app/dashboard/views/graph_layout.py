"""What of a graph is drawn around some nodes, and where: layers from left to right, few crossings, never too much."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import networkx as nx

from app.dashboard.views.graph_links import EdgeKind, Links, Node, Stage

MOST_NODES = 200
MOST_HOPS = 5
BOX_WIDTH, BOX_HEIGHT = 176, 46
GAP_ACROSS, GAP_DOWN = 54, 12
MARGIN = 10
# How often columns are put in the order of their neighbours, left to right and back in turn.
SWEEPS = 4


@dataclass(frozen=True)
class Region:
    """The nodes within some hops of the centre, the nearest ones of them; ``left_out`` more were not taken."""

    nodes: tuple[Node, ...]
    centre: frozenset[Node]
    edges: tuple[tuple[Node, Node, EdgeKind], ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Line:
    """An edge from the right side of one box to the left side of another, in pixels."""

    kind: EdgeKind
    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """Upper left corners of boxes by node, lines between them, and the size of all of it, in pixels."""

    places: Mapping[Node, tuple[float, float]]
    lines: tuple[Line, ...]
    width: float
    height: float


def region(links: Links, centre: Iterable[Node], hops: int, stage: Stage, most: int = MOST_NODES) -> Region:
    """The nodes within ``hops`` edges of the centre, in either direction."""
    start = [node for node in dict.fromkeys(centre) if links.has(node, stage)]
    taken = start[:most]
    seen, front = set(start), start
    for _ in range(hops):
        near: dict[Node, None] = {}
        for node in front:
            for neighbours in (links.before(node, stage), links.after(node, stage)):
                near.update((other, None) for other in neighbours if other not in seen)
        front = sorted(near)
        seen |= near.keys()
        taken += front[: most - len(taken)]
    drawn = set(taken)
    edges = [
        (before, node, links.edge_kind(before, node))
        for node in taken
        for before in dict.fromkeys(links.before(node, stage))
        if before in drawn
    ]
    # A Detach and what it lets come back: an order that holds because both wait for other things.
    edges += [
        (node, after, "wait")
        for node in taken
        if node[0] == "detach"
        for after in links.after(node, stage)
        if after in drawn
    ]
    return Region(tuple(taken), frozenset(start), tuple(_needed(taken, edges)), len(seen) - len(taken))


def _needed(nodes: list[Node], edges: list[tuple[Node, Node, EdgeKind]]) -> list[tuple[Node, Node, EdgeKind]]:
    """The edges without those of pure order that follow from the others."""
    view = nx.DiGraph()
    view.add_nodes_from(nodes)
    view.add_edges_from((before, after) for before, after, _ in edges)
    if not nx.is_directed_acyclic_graph(view):
        return edges
    direct = nx.transitive_reduction(view)
    return [edge for edge in edges if edge[2] != "control" or direct.has_edge(*edge[:2])]


def laid_out(found: Region) -> Layout:
    """Places for a region."""
    layers = layered(found)
    tallest = max((len(layer) for layer in layers), default=1)
    height = tallest * (BOX_HEIGHT + GAP_DOWN) - GAP_DOWN
    places: dict[Node, tuple[float, float]] = {}
    for number, layer in enumerate(layers):
        top = (height - len(layer) * (BOX_HEIGHT + GAP_DOWN) + GAP_DOWN) / 2
        for row, node in enumerate(layer):
            across = MARGIN + number * (BOX_WIDTH + GAP_ACROSS)
            places[node] = (across, MARGIN + top + row * (BOX_HEIGHT + GAP_DOWN))
    lines = [_line(kind, places[before], places[after]) for before, after, kind in found.edges]
    width = len(layers) * (BOX_WIDTH + GAP_ACROSS) - GAP_ACROSS + 2 * MARGIN
    return Layout(places, tuple(lines), max(width, 0), height + 2 * MARGIN)


def layered(found: Region) -> list[list[Node]]:
    """Nodes by the longest way to them, those that wait for nothing next to what waits for them; each layer ordered by
    where its neighbours are. A graph that goes round in circles is layered by distance from the centre."""
    view = nx.DiGraph()
    view.add_nodes_from(found.nodes)
    view.add_edges_from((before, after) for before, after, _ in found.edges)
    if not nx.is_directed_acyclic_graph(view):
        near = nx.multi_source_dijkstra_path_length(view.to_undirected(), set(found.centre))
        level = {node: int(near.get(node, 0)) for node in found.nodes}
    else:
        level = {node: n for n, layer in enumerate(nx.topological_generations(view)) for node in layer}
        for node in found.nodes:
            if not view.pred[node] and view.succ[node]:
                level[node] = min(level[after] for after in view.succ[node]) - 1
    layers: list[list[Node]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for node in found.nodes:
        layers[level[node]].append(node)
    layers = [sorted(layer) for layer in layers if layer]
    for sweep in range(SWEEPS):
        row = {node: place - (len(layer) - 1) / 2 for layer in layers for place, node in enumerate(layer)}
        beside = view.pred if sweep % 2 == 0 else view.succ
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            mean = {
                node: sum(row[other] for other in beside[node]) / len(beside[node]) if beside[node] else row[node]
                for node in layer
            }
            layer.sort(key=lambda node: (mean[node], node))
            row.update({node: place - (len(layer) - 1) / 2 for place, node in enumerate(layer)})
    return layers


def _line(kind: EdgeKind, before: tuple[float, float], after: tuple[float, float]) -> Line:
    middle = BOX_HEIGHT / 2
    return Line(kind, (before[0] + BOX_WIDTH, before[1] + middle), (after[0], after[1] + middle))
