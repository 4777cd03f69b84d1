"""What is known of a node of the graph page, with addresses that lead on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.dashboard.theme import class_title
from app.dashboard.views import details as run_details
from app.dashboard.views.address import Shown
from app.dashboard.views.address import query_of as run_query
from app.dashboard.views.graph_boxes import Around, described, order_of
from app.dashboard.views.graph_layers import Layers, layer_named
from app.dashboard.views.graph_links import Links, Node, Stage
from app.dashboard.views.graph_query import Asked, query_of
from app.dashboard.views.step import StepView
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.plain import visible

MOST_LISTED = 8
LONGEST = 200


@dataclass(frozen=True, slots=True)
class Way:
    """Words that lead to an address."""

    text: str
    href: str


Cell = str | Way


@dataclass(frozen=True)
class NodeDetails:
    """``facts`` are (label, words and ways); ``ways`` lead to this thing elsewhere."""

    title: str
    subtitle: str
    facts: tuple[tuple[str, tuple[Cell, ...]], ...]
    ways: tuple[Way, ...]


@dataclass(frozen=True)
class Page:
    """The run and step whose graph is shown."""

    run: int
    step: int
    view: StepView

    @property
    def links(self) -> Links:
        return self.view.links

    def graph(self, around: Around | None) -> str:
        return f"/graph/{self.run}{query_of(Asked(around, 0 if around and around.place == 'layer' else 1))}"

    def in_run(self, kind: str, identity: int) -> str:
        return f"/run/{self.run}{run_query(Shown(self.step, picked=(kind, identity)))}"


def node_details(page: Page, node: Node, stage: Stage = "scheduled") -> NodeDetails | None:
    """Details of an op, a move or a Detach; None for what the graph does not have."""
    kind, identity = node
    links = page.links
    if kind == "op" and 0 <= identity < len(links.schedule.graph.ops):
        told = run_details.details(page.view, "op", identity)
    elif kind == "transfer" and identity in links.moves:
        told = run_details.details(page.view, "transfer", identity)
    elif kind == "detach" and 0 <= identity < len(links.detaches):
        return _detach(page, identity)
    else:
        return None
    if told is None:
        return None
    facts = [(label, tuple(_cell(page, word) for word in words)) for label, words in told.facts]
    if kind == "op":
        layer = layer_named(links.schedule.graph.ops[identity].scope)
        facts.insert(2, ("Layer", (Way(visible(layer), page.graph(Around("layer", layer=layer))),)))
        facts.insert(4, ("Order", _order(page, identity)))
        facts += [
            ("Comes after", _nodes(page, links.before(node, stage), stage)),
            ("Comes before", _nodes(page, links.after(node, stage), stage)),
        ]
    around = Around("op", identity) if kind == "op" else Around("storage", links.storage_of(node) or 0)
    centre = "Centre the graph on it" if kind == "op" else "Centre on its storage"
    ways = (Way(centre, page.graph(around)), Way("Show it in the run", page.in_run(kind, identity)))
    return NodeDetails(visible(told.title), told.subtitle, tuple(facts), ways)


def _order(page: Page, op: int) -> tuple[Cell, ...]:
    """When it runs among the ops, and between which."""
    links = page.links
    place, captured = order_of(links, op, "scheduled"), order_of(links, op, "captured")
    again = links.schedule.graph.ops[op].recompute_of is not None
    was = "recomputed" if again else "as captured" if place == captured else f"captured as {captured}"
    beside: list[Cell] = []
    for word, number in (("after", place - 1), ("before", place + 1)):
        if 0 <= number < len(links.schedule.order):
            beside.append(f"runs {word}")
            beside.append(_way(page, ("op", links.schedule.order[number]), "scheduled"))
    return (f"number {place} of {len(links.schedule.order):,} from 0, {was}", *beside)


def storage_details(page: Page, storage: int) -> NodeDetails | None:
    """Details of a storage; None for what the graph does not have."""
    told = run_details.details(page.view, "storage", storage)
    if told is None:
        return None
    facts = tuple((label, tuple(_cell(page, word) for word in words)) for label, words in told.facts)
    return NodeDetails(
        visible(told.title), told.subtitle, facts, (Way("Show it in the run", page.in_run("storage", storage)),)
    )


def layer_details(page: Page, layers: Layers, layer: str, phase: str = "") -> NodeDetails | None:
    """What a layer (in one phase, where one is named) holds; None where there is none of this name."""
    boxes = [box for box in layers.boxes if box.layer == layer and phase in ("", box.phase)]
    if not boxes:
        return None
    facts: list[tuple[str, tuple[Cell, ...]]] = []
    for box in boxes:
        facts.append((box.phase, (f"{box.ops} ops, {format_ns(box.time_ns)} {page.view.kind}",)))
        facts += [(class_title(c), (format_bytes(size),)) for c, size in box.bytes_by_class.items()]
    ways = [Way("All layers", page.graph(None))]
    if phase:
        ways.append(Way("All phases of this layer", page.graph(Around("layer", layer=layer))))
    return NodeDetails(visible(layer), phase or "all phases", tuple(facts), tuple(ways))


def whole_details(page: Page, layers: Layers) -> NodeDetails:
    """The graph in numbers."""
    schedule = page.links.schedule
    graph = schedule.graph
    kinds = [move[0].kind for move in page.links.moves.values()]
    inserted = {
        "Prefetch": kinds.count("prefetch"),
        "Store": kinds.count("store"),
        "Detach": len(page.links.detaches),
    }
    by_class: dict[str, int] = {}
    for storage in graph.storages:
        by_class[storage.tensor_class] = by_class.get(storage.tensor_class, 0) + storage.bytes
    facts: list[tuple[str, tuple[Cell, ...]]] = [
        ("Ops", (f"{len(graph.ops):,} in {len({b.layer for b in layers.boxes}) + layers.left_out} layers",)),
        ("Storages", (f"{len(graph.storages):,}",)),
        ("Inserted", (", ".join(f"{count:,} {name}" for name, count in inserted.items()),)),
        ("Order", (_order_words(page.links),)),
    ]
    facts += [(class_title(c), (format_bytes(size),)) for c, size in sorted(by_class.items(), key=lambda i: -i[1])]
    return NodeDetails("The whole graph", visible(graph.name), tuple(facts), ())


def _order_words(links: Links) -> str:
    places = [op for op in links.schedule.order if links.schedule.graph.ops[op].recompute_of is None]
    moved = sum(a != b for a, b in zip(places, sorted(places), strict=True))
    return f"{moved:,} ops run at another place than captured" if moved else "ops run as they were captured"


def _detach(page: Page, number: int) -> NodeDetails:
    links = page.links
    detach = links.detaches[number]
    storage = links.schedule.graph.storages[detach.storage]
    facts: list[tuple[str, tuple[Cell, ...]]] = [
        ("Storage", (Way(visible(storage.name), page.graph(Around("storage", storage.id))),)),
        ("Frees", (f"{format_bytes(storage.bytes)} of the device, without a transfer",)),
        ("Why it may", ("its copy in the pool is valid: nothing has written to it since",)),
        ("Planned at", (format_ns(detach.time_ns),)),
        ("Comes after", _nodes(page, [detach.after] if detach.after else [], "scheduled")),
        ("Brought back by", _nodes(page, [detach.before] if detach.before else [], "scheduled", "the next step")),
    ]
    ways = (
        Way("Centre on its storage", page.graph(Around("storage", storage.id))),
        Way("Show the storage in the run", page.in_run("storage", storage.id)),
    )
    return NodeDetails(f"Detach {visible(storage.name)}", "the device copy is dropped", tuple(facts), ways)


def _nodes(page: Page, nodes: Iterable[Node], stage: Stage, nothing: str = "nothing") -> tuple[Cell, ...]:
    listed: Sequence[Node] = list(dict.fromkeys(nodes))
    cells: list[Cell] = [_way(page, node, stage) for node in listed[:MOST_LISTED]]
    if len(listed) > MOST_LISTED:
        cells.append(f"and {len(listed) - MOST_LISTED} more")
    return tuple(cells) or (nothing,)


def _way(page: Page, node: Node, stage: Stage) -> Way:
    label = described(page.links, page.view, node, stage)
    around = Around("op", node[1]) if node[0] == "op" else Around("storage", page.links.storage_of(node) or 0)
    return Way(label.name if label.look == "op" else f"{label.title} {label.name}", page.graph(around))


def _cell(page: Page, word: run_details.Words) -> Cell:
    if isinstance(word, str):
        return visible(word, LONGEST)
    if word.kind == "transfer":
        return Way(visible(word.text), page.in_run("transfer", word.id))
    return Way(visible(word.text), page.graph(Around(word.kind, word.id)))
