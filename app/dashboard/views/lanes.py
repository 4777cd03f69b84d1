"""One lane of the Gantt chart at the level of detail that its window allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from profiles.lanes import Lane

Detail = Literal["labels", "bars", "outline", "busy"]
Floats = NDArray[np.float64]

# Spans in the window up to which each level of detail is drawn (how they were chosen: docs/dashboard.md).
LABELLED = 200
BARS = 250
OUTLINES = 2_000
BINS = 768
BEYOND = 8
"""One in so many parts of the window is drawn beyond each of its sides."""
# Letters of a bar's text that fit into the width of the chart.
LETTERS = 155
# Fewer letters of a longer text say nothing.
FEWEST_LETTERS = 6
MS = 1e6


@dataclass(frozen=True)
class Bars:
    """Horizontal bars: id, left edge and length in ms, text inside and on hover."""

    id: list[int] = field(default_factory=list)
    start_ms: Floats = field(default_factory=lambda: np.empty(0))
    length_ms: Floats = field(default_factory=lambda: np.empty(0))
    text: list[str] = field(default_factory=list)
    hover: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outline:
    """A polygon along the lane's floor; ``height`` is 0 to 1 of the lane, in busy bins the exact busy fraction."""

    time_ms: Floats = field(default_factory=lambda: np.empty(0))
    height: Floats = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class Drawn:
    """What to draw of ``count`` rectangles in a window: bars, or an outline; the other one is empty. ``apart``: most
    bars are wide enough for a light edge between them."""

    detail: Detail
    count: int
    apart: bool = False
    bars: Bars = field(default_factory=Bars)
    outline: Outline = field(default_factory=Outline)


def draw(
    lane: Lane,
    window: tuple[int, int],
    text: Callable[[int, int], str],
    hover: Callable[[int, int, int], str],
    view_ns: int | None = None,
) -> Drawn:
    """What touches ``window`` (ns); ``text(item, letters)`` stands in a bar, ``hover(item, start, end)`` beside it.

    ``view_ns`` is the part of the window that is seen, where that is not all of it: it decides which texts fit.
    """
    shown = lane.inside(*window)
    count = len(shown.item)
    if count > BARS:
        return Drawn("outline" if count <= OUTLINES else "busy", count, outline=outline(lane, window))
    labelled = count <= LABELLED
    letter_ns = (view_ns or window[1] - window[0]) / LETTERS
    rows = list(zip(shown.item.tolist(), shown.start_ns.tolist(), shown.end_ns.tolist(), strict=True))
    bars = Bars(
        id=[item for item, _, _ in rows],
        start_ms=shown.start_ns / MS,
        length_ms=(shown.end_ns - shown.start_ns) / MS,
        text=[text(item, int((end - start) / letter_ns)) if labelled else "" for item, start, end in rows],
        hover=[hover(*row) for row in rows],
    )
    apart = labelled and count > 0 and float(np.median(shown.end_ns - shown.start_ns)) > 1.5 * letter_ns
    return Drawn("labels" if labelled else "bars", count, apart, bars=bars)


def wider(window: tuple[int, int], end_ns: int) -> tuple[int, int]:
    """What is drawn for a window of an axis from 0 to ``end_ns``: a part more on each side, so that it is seen to go
    on where a chart is moved before the answer to that is there."""
    margin = (window[1] - window[0]) // BEYOND
    return max(0, window[0] - margin), min(end_ns, window[1] + margin)


def outline(lane: Lane, window: tuple[int, int]) -> Outline:
    """The rectangles' own outline where they are few, steps of the exact busy fraction of each bin above that."""
    shown = lane.inside(*window)
    if len(shown.item) <= OUTLINES:
        start, end = shown.start_ns / MS, shown.end_ns / MS
        time = np.column_stack([start, start, end, end]).ravel()
        return Outline(time, np.tile([0.0, 1.0, 1.0, 0.0], len(start)))
    edges = window[0] + (window[1] - window[0]) * np.arange(BINS + 1, dtype=np.int64) // BINS
    busy = np.diff(lane.busy_until(edges)) / np.maximum(np.diff(edges), 1)
    return Outline(np.repeat(edges / MS, 2), np.concatenate([[0.0], np.repeat(busy, 2), [0.0]]))


def joined(left: Floats, right: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Many rectangles as one path (x, y) to be filled without a line: from one corner to each of them and back. A path
    with gaps would cost the browser an element for each."""
    if not len(left):
        return np.empty(0), np.empty(0)
    hub_x, hub_y = np.full_like(left, left[0]), np.full_like(left, low[0])
    x = np.column_stack([hub_x, left, left, right, right, left])
    return x.ravel(), np.column_stack([hub_y, low, high, high, low, low]).ravel()


def fitted(text: str, letters: int, end: bool = False) -> str:
    """The text, its beginning (or its ``end``) with an ellipsis, or nothing, whichever fits into so many letters."""
    if len(text) <= letters:
        return text
    if letters < FEWEST_LETTERS:
        return ""
    return "…" + text[1 - letters :] if end else text[: letters - 1] + "…"
