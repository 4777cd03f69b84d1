"""What a search found, as rows of a table and one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.dashboard.theme import class_colour, class_title
from app.dashboard.views.clipping import LONGEST_IN_CELL, clipped
from app.dashboard.views.step import StepView
from hyperoffload_core.ir import TENSOR_CLASSES
from profiles.filtering import PLURALS, Kind, parse_query
from profiles.searching import FOUND_ORDER, Found, Hits, find, found_words

MOST_ROWS = 200
"""Of each kind."""
_TITLES: dict[Kind, str] = {"storage": "Storage", "transfer": "Transfer", "op": "Op"}


@dataclass(frozen=True)
class SearchView:
    """``rows`` have raw ns and bytes, None where a thing has none; ``summary`` counts all hits, shown or not."""

    rows: tuple[dict[str, Any], ...]
    summary: str
    found: Found


def search_view(view: StepView, text: str) -> SearchView:
    """What a search finds in the step. Raises `profiles.filtering.FilterError`."""
    found = find(view.searchable, parse_query(text))
    rows = [row for kind in FOUND_ORDER if kind in found.hits for row in _rows(found.hits[kind])]
    return SearchView(tuple(rows), summary(found), found)


def summary(found: Found) -> str:
    """What was found in one sentence, and what of it the list has."""
    cut = [f"the first {MOST_ROWS} {PLURALS[kind]}" for kind, hits in found.hits.items() if hits.count > MOST_ROWS]
    return found_words(found) + (f" The list has {' and '.join(cut)}." if cut else "")


def _rows(hits: Hits) -> list[dict[str, Any]]:
    things, rows = hits.things, hits.rows[:MOST_ROWS]
    kind = things.kind

    def numbers(name: str) -> Sequence[int | None]:
        return things.numbers[name][rows].tolist() if name in things.numbers else [None] * len(rows)

    if kind == "op":
        what, colours = [things.words["op"][row] for row in rows.tolist()], [""] * len(rows)
    else:
        places = np.log2(things.sets["class"][rows]).astype(int).tolist()
        what = [class_title(TENSOR_CLASSES[place]) for place in places]
        colours = [class_colour(TENSOR_CLASSES[place]) for place in places]
    title = _TITLES[kind]
    titles = [title] * len(rows)
    if kind == "transfer":
        titles = ["Prefetch" if way == 1 else "Store" for way in things.sets["way"][rows].tolist()]
    columns = (
        things.ids[rows].tolist(),
        rows.tolist(),
        titles,
        what,
        colours,
        *(numbers(name) for name in ("size", "start", "end", "duration", "blocking")),
    )
    return [
        {
            "key": f"{kind}:{identity}",
            "kind": kind,
            "id": identity,
            "title": title,
            "name": clipped(things.names[row], LONGEST_IN_CELL),
            "what": of,
            "colour": colour,
            "layer": things.words["layer"][row],
            "bytes": size,
            "start_ns": None if start is None or start < 0 else start,
            "end_ns": None if end is None or end < 0 else end,
            "duration_ns": duration,
            "blocking_ns": blocking or None,
        }
        for identity, row, title, of, colour, size, start, end, duration, blocking in zip(*columns, strict=True)
    ]
