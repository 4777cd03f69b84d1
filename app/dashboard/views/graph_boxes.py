"""The boxes of a drawn neighbourhood: what stands in each, in what look, in which order a keyboard passes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from app.dashboard.views.graph_layers import layer_named
from app.dashboard.views.graph_layout import BOX_HEIGHT, BOX_WIDTH, Region, laid_out, region
from app.dashboard.views.graph_links import Links, Node, Stage
from app.dashboard.views.graph_svg import across, picture
from app.dashboard.views.lanes import fitted
from app.dashboard.views.step import StepView
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.plain import visible

Place = Literal["op", "storage", "layer"]
TITLE_LETTERS, NAME_LETTERS = 17, 25
KIND_TITLES = {"prefetch": "Prefetch", "store": "Store"}


@dataclass(frozen=True)
class Around:
    """What is in the middle: an op or a storage by id, or the ops of a layer (of one phase of it, where one is
    named)."""

    place: Place
    id: int = -1
    layer: str = ""
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Label:
    """A node in words: ``look`` is one of op, prefetch, store, detach; ``number`` the place of an op in the order, else
    empty; ``name`` that of the op, or of the storage that is moved."""

    look: str
    title: str
    number: str
    name: str
    note: str

    @property
    def hint(self) -> str:
        """All of it on one line."""
        return f"{self.title} {self.name}{' ' * bool(self.number)}{self.number}: {self.note}"


@dataclass(frozen=True, slots=True)
class Box:
    """A node at a place; ``left`` and ``top`` in pixels. ``title`` and ``name`` are cut to what fits."""

    node: Node
    label: Label
    title: str
    name: str
    centre: bool
    left: float
    top: float


@dataclass(frozen=True)
class Drawing:
    """Boxes by place, the lines below them as the address of a picture, and how many nodes found no room."""

    boxes: tuple[Box, ...]
    lines: str
    width: float
    height: float
    left_out: int


def centre_of(links: Links, around: Around, stage: Stage) -> list[Node]:
    """The nodes in the middle. Nothing for what the graph does not have."""
    graph = links.schedule.graph
    if around.place == "op":
        return [("op", around.id)] if 0 <= around.id < len(graph.ops) else []
    if around.place == "storage":
        return links.nodes_of_storage(around.id, stage) if 0 <= around.id < len(graph.storages) else []
    return [
        ("op", op.id)
        for op in graph.ops
        if layer_named(op.scope) == around.layer and around.phase in ("", op.phase) and links.has(("op", op.id), stage)
    ]


def drawing(links: Links, view: StepView, around: Around, hops: int, stage: Stage) -> Drawing:
    """The nodes within some hops of the centre, in captured order, or in refined order with the cache operators."""
    found = region(links, centre_of(links, around, stage), hops, stage)
    layout = laid_out(found)
    boxes = [_box(links, view, found, node, stage, *place) for node, place in layout.places.items()]
    lines = picture((across(line.kind, line.start, line.end) for line in layout.lines), layout.width, layout.height)
    return Drawing(tuple(boxes), lines, layout.width, layout.height, found.left_out)


def _box(links: Links, view: StepView, found: Region, node: Node, stage: Stage, left: float, top: float) -> Box:
    label = described(links, view, node, stage)
    # What is all there is needs no mark as the middle of something.
    centre = node in found.centre and len(found.centre) < len(found.nodes)
    title, name = fitted(label.title, TITLE_LETTERS), fitted(label.name, NAME_LETTERS, end=True)
    return Box(node, label, title, name, centre, left, top)


def described(links: Links, view: StepView, node: Node, stage: Stage) -> Label:
    """A node in words."""
    kind, identity = node
    graph = links.schedule.graph
    if kind == "op":
        op = graph.ops[identity]
        span = view.times["op"].get(identity)
        time = f", {format_ns(span[1] - span[0])} {view.kind}" if span else ""
        again = ", runs again" if op.recompute_of is not None else ""
        number = f"#{order_of(links, identity, stage)}"
        return Label("op", visible(op.primitive), number, visible(op.name), f"{op.phase}{time}{again}")
    storage = graph.storages[links.storage_of(node) or 0]
    name, size = visible(storage.name), format_bytes(storage.bytes)
    if kind == "detach":
        return Label("detach", "Detach", "", name, f"{size} of the device are free without a transfer")
    move = links.moves[identity]
    start, end = move_span(links, view, identity)
    parts = f" in {len(move)} parts" if len(move) > 1 else ""
    title = KIND_TITLES[move[0].kind]
    return Label(move[0].kind, title, "", name, f"{size}{parts} in {format_ns(end - start)} {view.kind}")


def order_of(links: Links, op: int, stage: Stage) -> int:
    """Its place among the ops, from 0: as captured, or as they are run."""
    if stage == "scheduled":
        return links.position.get(op, op)
    return links.schedule.graph.origins[op]


def move_span(links: Links, view: StepView, first: int) -> tuple[int, int]:
    """Start of the first and end of the last part of a move (ns)."""
    times = [view.times["transfer"].get(part.id, (part.start_ns, part.end_ns)) for part in links.moves[first]]
    return min(t[0] for t in times), max(t[1] for t in times)


def style(box: Box) -> dict[str, Any]:
    return {"left": round(box.left), "top": round(box.top), "width": BOX_WIDTH, "height": BOX_HEIGHT}
