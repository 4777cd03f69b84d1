"""What the run page shows, as the query of its address: everything that two people may want to look at together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import urlencode

from profiles.stacks import GROUPINGS, Grouping

Show = Literal["measured", "predicted", "both"]
Picked = tuple[str, int]
Span = tuple[int, int]

_SPAN = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_PICKED = re.compile(r"(op|storage|transfer):([0-9]{1,18})")


@dataclass(frozen=True)
class Shown:
    """``step``, ``show`` None: the page's own choice; ``window`` None: the whole step; ``picked``, ``at`` (the chosen
    time, ns), ``selected`` None: nothing was chosen."""

    step: int | Literal["all"] | None = None
    show: Show | None = None
    by: Grouping = "class"
    window: Span | None = None
    picked: Picked | None = None
    at: int | None = None
    selected: Span | None = None


def query_of(shown: Shown) -> str:
    """The query with its question mark, empty for the page as it opens by itself."""
    given = {
        "step": shown.step,
        "show": shown.show,
        "by": None if shown.by == "class" else shown.by,
        "window": _span(shown.window),
        "picked": None if shown.picked is None else f"{shown.picked[0]}:{shown.picked[1]}",
        "at": shown.at,
        "selected": _span(shown.selected),
    }
    query = urlencode({key: value for key, value in given.items() if value is not None}, safe=":")
    return f"?{query}" if query else ""


def shown_of(query: Mapping[str, str]) -> Shown:
    """What a query asks for; what it does not say, or says wrongly, is left to the page."""
    step, show, by, at = (query.get(key, "") for key in ("step", "show", "by", "at"))
    picked = _PICKED.fullmatch(query.get("picked", ""))
    return Shown(
        step="all" if step == "all" else _number(step),
        show=next((s for s in get_args(Show) if s == show), None),
        by=next((g for g in GROUPINGS if g == by), "class"),
        window=_spanned(query.get("window", "")),
        picked=(picked[1], int(picked[2])) if picked else None,
        at=_number(at),
        selected=_spanned(query.get("selected", "")),
    )


def run_number(text: str) -> int:
    """The number of a run in an address, -1 for what is none."""
    number = _number(text)
    return -1 if number is None else number


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _span(span: Span | None) -> str | None:
    return None if span is None else f"{max(0, span[0])}-{max(0, span[1])}"


def _spanned(text: str) -> Span | None:
    found = _SPAN.fullmatch(text)
    if found is None:
        return None
    span = int(found[1]), int(found[2])
    return span if span[1] > span[0] else None
