"""The neighbourhood of an op or a storage in a step's graph, found by name, and its layers: what `hyperoffload explain`
prints with ``--around`` and ``--layers`` and the graph page draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.dashboard.views.graph_boxes import Around, Label, centre_of, described
from app.dashboard.views.graph_layers import Layers, layers_of
from app.dashboard.views.graph_layout import MOST_HOPS, Region, layered, region
from app.dashboard.views.graph_links import Node, Stage
from app.dashboard.views.step import StepView
from app.explaining import ExplainError, step_profile
from hyperoffload_core.errors import near_matches
from hyperoffload_core.ir import Graph
from hyperoffload_core.recording import Profile
from hyperoffload_core.schedule import Schedule

MOST_NAMED = 5


@dataclass(frozen=True)
class Surroundings:
    """The nodes within some hops; ``labels`` has them in words, from what comes first to what comes last."""

    name: str
    stage: Stage
    hops: int
    region: Region
    labels: Mapping[Node, Label]


def surroundings(
    source: Schedule | Profile, step: int | None, name: str, hops: int = 1, stage: Stage = "scheduled"
) -> Surroundings:
    """What is around the op or the storage a person means. Raises `ExplainError`."""
    view = StepView(*step_profile(source, step))
    graph = view.profile.schedule.graph
    around = meant(graph, name)
    if not 0 <= hops <= MOST_HOPS:
        raise ExplainError(f"a neighbourhood of {hops} hops is not drawn; name 0 to {MOST_HOPS}")
    found = region(view.links, centre_of(view.links, around, stage), hops, stage)
    what = (graph.ops if around.place == "op" else graph.storages)[around.id]
    if not found.nodes:
        raise ExplainError(f"the {stage} graph has nothing at {what.name!r}")
    nodes = [node for layer in layered(found) for node in layer]
    labels = {node: described(view.links, view, node, stage) for node in nodes}
    return Surroundings(f"{around.place} {what.name}", stage, hops, found, labels)


def layers(source: Schedule | Profile, step: int | None) -> Layers:
    """All layers of a step, with what goes from one to another. Raises `ExplainError`."""
    return layers_of(StepView(*step_profile(source, step)))


def meant(graph: Graph, name: str) -> Around:
    """The one op or storage of that name, else with it in its name; ``op:12`` and ``storage:12`` name it by its number.
    Raises `ExplainError` where there is none, or more than one."""
    kind, colon, number = name.partition(":")
    if colon and kind in ("op", "storage") and number.isdecimal():
        count = len(graph.ops if kind == "op" else graph.storages)
        if len(number) > 9 or int(number) >= count:
            raise ExplainError(f"there is no {kind} {number}; this graph has {count:,}, numbered from 0")
        return Around("op" if kind == "op" else "storage", int(number))
    named = [(Around("op", op.id), op.name) for op in graph.ops]
    named += [(Around("storage", s.id), s.name) for s in graph.storages]
    found = [pair for pair in named if pair[1] == name] or [pair for pair in named if name.lower() in pair[1].lower()]
    if not found:
        near = near_matches(name, [text for _, text in named])
        told = f"near matches: {', '.join(near)}" if near else "none is like it"
        raise ExplainError(f"no op and no storage is called {name!r}; {told}")
    if len(found) > 1:
        raise ExplainError(f"{name!r} names {len(found)} ops and storages; write one of them as {_several(found)}")
    return found[0][0]


def _several(found: Sequence[tuple[Around, str]]) -> str:
    shown = ", ".join(f"{around.place}:{around.id} ({text})" for around, text in found[:MOST_NAMED])
    return shown + ", ..." * (len(found) > MOST_NAMED)
