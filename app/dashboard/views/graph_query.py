"""What the graph page shows, as the query of its address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import urlencode

from app.dashboard.views.graph_boxes import Around
from app.dashboard.views.graph_layout import MOST_HOPS
from app.dashboard.views.graph_links import Node, NodeKind
from hyperoffload_core.ir import PHASES

Stages = Literal["captured", "scheduled", "both"]


@dataclass(frozen=True)
class Asked:
    """``around`` None: the layers. ``picked``: the node whose details are shown, None for what is in the middle."""

    around: Around | None = None
    hops: int = 1
    stages: Stages = "scheduled"
    picked: Node | None = None


def asked_of(query: Mapping[str, str]) -> Asked:
    """What a query asks for; what it does not say, or says wrongly, is left to the page."""
    around: Around | None = None
    for place in ("op", "storage"):
        if _is_number(query.get(place, "")):
            around = Around("op" if place == "op" else "storage", int(query[place]))
    if around is None and query.get("layer"):
        phase = query.get("phase", "")
        around = Around("layer", layer=query["layer"], phase=phase if phase in PHASES else "")
    default = 0 if around is not None and around.place == "layer" else 1
    hops = query.get("hops", "")
    return Asked(
        around,
        min(int(hops), MOST_HOPS) if _is_number(hops) else default,
        next((s for s in get_args(Stages) if s == query.get("stages")), "scheduled"),
        node_of(query.get("picked", "")),
    )


def query_of(asked: Asked) -> str:
    """The query with its question mark, empty for the layers."""
    around = asked.around
    if around is None:
        return ""
    given: dict[str, object] = {"layer": around.layer} if around.place == "layer" else {around.place: around.id}
    if around.phase:
        given["phase"] = around.phase
    if asked.hops != (0 if around.place == "layer" else 1):
        given["hops"] = asked.hops
    if asked.stages != "scheduled":
        given["stages"] = asked.stages
    if asked.picked is not None:
        given["picked"] = f"{asked.picked[0]}:{asked.picked[1]}"
    return "?" + urlencode(given, safe=":")


def node_of(text: str) -> Node | None:
    """``op:12``, ``transfer:3``, ``detach:0``."""
    kind, _, number = text.partition(":")
    known: NodeKind | None = next((k for k in get_args(NodeKind) if k == kind), None)
    return (known, int(number)) if known is not None and _is_number(number) else None


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,9}", text) is not None
