"""The bars of the tier chart as plotly traces, at the level of detail that their number in the window allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.dashboard import theme
from app.dashboard.views.lane_traces import filled, packed, plain
from app.dashboard.views.lanes import BARS, MS, OUTLINES
from app.dashboard.views.step import StepView
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.plain import visible
from profiles.series import busy_fraction
from profiles.tiers import TIERS, TierBar

Column = NDArray[np.int64]
Floats = NDArray[np.float64]

# A row's name stands above its bar; reads and writes are ticks below it.
BAR_TOP, BAR_BOTTOM, POOL_TOP, TICKS_AT = 0.46, 0.82, 0.75, 0.90
MOST_TICKS = 600
# Slices of one row where its spans are too many to be drawn singly.
BINS = 300
TITLES = {"device": "on the device", "out": "on its way out", "pool": "in the pool", "in": "on its way in"}
TICK_COLOUR = "#7A8596"
# What moves is told from what stays by more than its colour.
HATCH = {"in": "/", "out": "\\"}


@dataclass(frozen=True)
class Rectangles:
    """Rectangles of one look: row, what (id of a transfer, -1 for a stay), start and end (ns), top and bottom within
    the row."""

    row: Column
    item: Column
    start_ns: Column
    end_ns: Column
    top: Floats
    bottom: Floats


def traces(view: StepView, bars: Sequence[TierBar], window: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """Spans of every bar (row ``i`` lies between ``i`` and ``i + 1``), then ticks for reads and writes."""
    looks = _looks(view, bars, window)
    count = sum(len(r.row) for r in looks.values())
    for (tier, tensor_class), found in looks.items():
        colour = {"in": theme.COPY_IN, "out": theme.COPY_OUT}.get(tier, theme.class_colour(tensor_class))
        common = {"name": f"{TITLES[tier]} ({view.kind})", "opacity": 0.3 if tensor_class == "wait" else 1.0}
        if count <= BARS:
            hatch = HATCH.get(tier, "") if tensor_class == "moves" else ""
            yield {**common, **_bars(view, bars, tier, found, colour, hatch)}
        else:
            shown = found if count <= OUTLINES else _thinned(found, window)
            low, high = shown.row + shown.bottom, shown.row + shown.top
            yield {**common, **filled(shown.start_ns, shown.end_ns, low, high, colour)}
    yield _turns(view, bars)
    yield from _ticks(view, bars, window)


def tick_count(view: StepView, bars: Sequence[TierBar], window: tuple[int, int]) -> int:
    """Reads and writes of these storages in the window; at most `MOST_TICKS` are drawn."""
    return sum(int(_seen(u.start_ns, u.end_ns, window).sum()) for u in (view.placements.uses(b.storage) for b in bars))


def _looks(view: StepView, bars: Sequence[TierBar], window: tuple[int, int]) -> dict[tuple[str, str], Rectangles]:
    """Rectangles by (tier, class); of what is under way both the whole time (class "wait") and the transfers."""
    storages = view.profile.schedule.graph.storages
    rows: dict[tuple[str, str], list[tuple[Any, ...]]] = {}

    def add(look: tuple[str, str], row: int, item: Column, start: Column, end: Column, top: Any, bottom: Any) -> None:
        seen = _seen(start, end, window)
        count = int(seen.sum())
        if count:
            sides = (np.broadcast_to(np.asarray(side, np.float64), start.shape)[seen] for side in (top, bottom))
            rows.setdefault(look, []).append((np.full(count, row), item[seen], start[seen], end[seen], *sides))

    for row, bar in enumerate(bars):
        storage = storages[bar.storage]
        for number, tier in enumerate(TIERS):
            spans = bar.tier == number
            start, end = bar.start_ns[spans], bar.end_ns[spans]
            look = (tier, storage.tensor_class) if tier in ("device", "pool") else (tier, "wait")
            top = POOL_TOP if tier == "pool" else BAR_TOP
            add(look, row, np.full(len(start), -1), start, end, top, BAR_BOTTOM)
        flights = view.placements.flights(bar.storage)
        high = BAR_BOTTOM - (BAR_BOTTOM - BAR_TOP) * flights.low / storage.bytes
        low = BAR_BOTTOM - (BAR_BOTTOM - BAR_TOP) * flights.high / storage.bytes
        for tier, outward in (("out", True), ("in", False)):
            these = flights.outward == outward
            columns = (flights.transfer[these], flights.start_ns[these], flights.end_ns[these])
            add((tier, "moves"), row, *columns, low[these], high[these])
    order = sorted(rows, key=lambda look: (look[1] == "moves", look))
    return {look: Rectangles(*(np.concatenate(c) for c in zip(*rows[look], strict=True))) for look in order}


def _bars(
    view: StepView, bars: Sequence[TierBar], tier: str, found: Rectangles, colour: str, hatch: str
) -> dict[str, Any]:
    storages = [bars[row].storage for row in found.row.tolist()]
    spans = zip(storages, found.item.tolist(), found.start_ns.tolist(), found.end_ns.tolist(), strict=True)
    return {
        "type": "bar",
        "orientation": "h",
        "base": packed(found.start_ns / MS),
        "x": packed((found.end_ns - found.start_ns) / MS),
        "y": packed(found.row + (found.top + found.bottom) / 2),
        "width": packed(found.bottom - found.top),
        "customdata": list(zip(storages, found.item.tolist(), strict=True)),
        "hovertext": [_hover(view, tier, *span) for span in spans],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "marker": {
            "color": colour,
            "line": {"width": 0},
            "pattern": {"shape": hatch, "size": 5, "solidity": 0.22, "fgcolor": "#FFFFFF", "fillmode": "overlay"},
        },
    }


def _hover(view: StepView, tier: str, storage: int, transfer: int, start: int, end: int) -> str:
    s = view.profile.schedule.graph.storages[storage]
    head = f"<b>{plain(visible(s.name))}</b><br>"
    if transfer < 0:
        where = f"{TITLES[tier]} for {format_ns(end - start)}, {view.kind}"
        return f"{head}{format_bytes(s.bytes)} {where}<br>{format_ns(start)} to {format_ns(end)}"
    verdict = view.verdicts[transfer]
    part = f" ({view.parts[transfer]})" if transfer in view.parts else ""
    kind = "Store" if tier == "out" else "Prefetch"
    moved = f"{kind}{part}: {format_bytes(view.transfers[transfer].bytes)} in {format_ns(end - start)}, {view.kind}"
    return f"{head}{moved}<br>exposed {format_ns(verdict.exposed_ns)}, blocking {format_ns(verdict.blocking_ns)}"


def _thinned(found: Rectangles, window: tuple[int, int]) -> Rectangles:
    """Of each row `BINS` slices at most, each as tall as the part of the slice that the row's spans cover: exact."""
    columns: list[tuple[Any, ...]] = []
    for row in np.unique(found.row).tolist():
        rows = np.flatnonzero(found.row == row)
        if len(rows) <= BINS:
            columns.append(tuple(c[rows] for c in _columns(found)))
            continue
        busy = busy_fraction(found.start_ns[rows], found.end_ns[rows], *window, BINS)
        edges = window[0] + (window[1] - window[0]) * np.arange(BINS + 1, dtype=np.int64) // BINS
        kept = busy > 0
        bottom, top = float(found.bottom[rows].max()), float(found.top[rows].min())
        count = int(kept.sum())
        tops = bottom - (bottom - top) * busy[kept]
        ids = np.full(count, row), np.full(count, -1)
        columns.append((*ids, edges[:-1][kept], edges[1:][kept], tops, np.full(count, bottom)))
    return Rectangles(*(np.concatenate(c) for c in zip(*columns, strict=True)))


def _columns(found: Rectangles) -> tuple[NDArray[Any], ...]:
    return found.row, found.item, found.start_ns, found.end_ns, found.top, found.bottom


def _ticks(view: StepView, bars: Sequence[TierBar], window: tuple[int, int]) -> Iterator[dict[str, Any]]:
    if tick_count(view, bars, window) > MOST_TICKS:
        return
    ops = view.profile.schedule.graph.ops
    for title, symbol, writes in (("reads", "line-ns-open", False), ("writes", "diamond", True)):
        x, y, hover, ids = [], [], [], []
        for row, bar in enumerate(bars):
            uses = view.placements.uses(bar.storage)
            for place in np.flatnonzero(_seen(uses.start_ns, uses.end_ns, window) & (uses.writes == writes)).tolist():
                op, start, end = int(uses.op[place]), int(uses.start_ns[place]), int(uses.end_ns[place])
                x.append((start + end) / 2 / MS)
                y.append(row + TICKS_AT)
                hover.append(
                    f"<b>{plain(visible(ops[op].name))}</b> {title} it<br>"
                    f"{format_ns(start)} to {format_ns(end)}, {view.kind}"
                )
                ids.append((bar.storage, -1, op))
        yield {
            "type": "scatter",
            "mode": "markers",
            "x": x,
            "y": y,
            "marker": {"symbol": symbol, "size": 6, "color": TICK_COLOUR, "line": {"width": 1.4, "color": TICK_COLOUR}},
            "customdata": ids,
            "hovertext": hover,
            "hovertemplate": "%{hovertext}<extra></extra>",
            "name": title,
        }


def _turns(view: StepView, bars: Sequence[TierBar]) -> dict[str, Any]:
    """At both ends of the step a mark where a storage goes on from the step before, or to the next one."""
    storages, homes = view.profile.schedule.graph.storages, view.profile.schedule.homes
    kept = [row for row, bar in enumerate(bars) if storages[bar.storage].persistent]
    in_pool = [homes[bars[row].storage] == "pool" for row in kept]
    level = [row + ((POOL_TOP if pool else BAR_TOP) + BAR_BOTTOM) / 2 for row, pool in zip(kept, in_pool, strict=True)]
    where = ["in the pool" if pool else "on the device" for pool in in_pool]
    colours = [theme.class_colour(storages[bars[row].storage].tensor_class) for row in kept]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [0.0] * len(kept) + [view.end_ns / MS] * len(kept),
        "y": level * 2,
        "marker": {
            "symbol": ["triangle-left"] * len(kept) + ["triangle-right"] * len(kept),
            "size": 9,
            "color": colours * 2,
        },
        "cliponaxis": False,
        "customdata": [[bars[row].storage, -1] for row in kept] * 2,
        "hovertext": [f"Comes from the step before, {w}" for w in where]
        + [f"Goes on into the next step, {w}" for w in where],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "name": "from step to step",
    }


def _seen(start: Column, end: Column, window: tuple[int, int]) -> NDArray[np.bool_]:
    return np.asarray((start < window[1]) & (end > window[0]))
