"""Ops and storages of a graph by name, or by the filter language of searches."""

from __future__ import annotations

from app.dashboard.theme import class_title
from app.dashboard.views.clipping import clipped
from app.dashboard.views.graph_layers import layer_named
from app.dashboard.views.step import StepView
from hyperoffload_core.errors import UserError
from hyperoffload_core.sizes import format_bytes
from profiles.filtering import parse_query
from profiles.searching import find

MOST_FOUND = 10


def found_in(view: StepView, text: str) -> tuple[list[tuple[str, int, str, str]], int]:
    """(op or storage, id, name, what it is) of what meets a search, the heaviest of each kind first, and how many more
    there are. Raises `UserError` for a search that is not understood or finds nothing."""
    found = find(view.searchable, parse_query(text))
    graph = view.profile.schedule.graph
    rows: list[tuple[str, int, str, str]] = []
    count = 0
    for kind in ("op", "storage"):
        hits = found.hits.get(kind)
        if hits is None:
            continue
        count += hits.count
        for identity in hits.things.ids[hits.rows[:MOST_FOUND]].tolist():
            if kind == "op":
                op = graph.ops[identity]
                rows.append(("op", identity, clipped(op.name), f"{op.primitive}, {op.phase}, {layer_named(op.scope)}"))
            else:
                storage = graph.storages[identity]
                what = f"{class_title(storage.tensor_class)}, {format_bytes(storage.bytes)}"
                rows.append(("storage", identity, clipped(storage.name), what))
    if not rows:
        raise UserError(found.hint or "only transfers meet this search; they have no place of their own in the graph")
    return rows, count - len(rows)
