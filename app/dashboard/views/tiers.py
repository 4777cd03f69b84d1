"""One bar per storage through the tiers of a step, on the time axis of the timeline.

A bar is as tall as a storage is on the device, a thin line while it is in the pool, and coloured by direction while it
is under way; a transfer of a part of it takes that part of the bar's height.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from app.dashboard import theme
from app.dashboard.views.lane_traces import plain
from app.dashboard.views.lanes import MS
from app.dashboard.views.marks import cursor_shape
from app.dashboard.views.pointing import clicked_time
from app.dashboard.views.step import StepView
from app.dashboard.views.tier_traces import traces
from hyperoffload_core.errors import UserError
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.filtering import parse_query
from profiles.plain import visible
from profiles.searching import find
from profiles.tiers import TierBar

MOST_ROWS = 40
# Rows that are chosen where nothing was asked for: storages that stall, then the largest that move.
STALLING, LARGEST = 5, 7
ROW_PIXELS = 34
MARGIN_PIXELS = 44
NAME_LETTERS = 90


@dataclass(frozen=True)
class Row:
    """A storage in numbers, ns and bytes."""

    storage: int
    name: str
    tensor_class: str
    bytes: int
    device_ns: int
    moving_ns: int
    pool_ns: int
    transfers: int
    blocking_ns: int


@dataclass(frozen=True)
class Chosen:
    """Storages to show, top row first; ``left_out`` more would have been shown; ``problem`` says why a search was not
    understood or found nothing."""

    storages: tuple[int, ...]
    left_out: int = 0
    problem: str = ""


@dataclass(frozen=True)
class Tiers:
    """The bars of some storages of one step."""

    view: StepView
    storages: tuple[int, ...]

    @cached_property
    def bars(self) -> tuple[TierBar, ...]:
        return tuple(self.view.placements.bar(storage) for storage in self.storages)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        stalls = stalls_of(self.view)
        graph = self.view.profile.schedule.graph
        return tuple(
            Row(
                bar.storage,
                visible(graph.storages[bar.storage].name),
                graph.storages[bar.storage].tensor_class,
                graph.storages[bar.storage].bytes,
                bar.total_ns("device"),
                bar.total_ns("out") + bar.total_ns("in"),
                bar.total_ns("pool"),
                len(self.view.placements.flights(bar.storage).transfer),
                stalls.get(bar.storage, 0),
            )
            for bar in self.bars
        )

    @property
    def height(self) -> int:
        """Of the chart in pixels."""
        return ROW_PIXELS * max(1, len(self.storages)) + MARGIN_PIXELS

    def row_at(self, level: float) -> int | None:
        """The storage of the row that a height on the chart's axis belongs to."""
        row = int(level)
        return self.storages[row] if level >= 0 and row < len(self.storages) else None


def choose(view: StepView, search: str, classes: Sequence[str], added: Sequence[int]) -> Chosen:
    """The storages to show: those that were ``added``, then what meets a search (`profiles.filtering`) and is of one of
    the classes, or, where neither is given, those that stall most and the largest that move."""
    known = view.profile.schedule.graph.storages
    first = [s for s in dict.fromkeys(added) if 0 <= s < len(known)]
    problem = ""
    if search.strip() or classes:
        try:
            found = _matching(view, search, classes)
        except UserError as error:
            return Chosen(tuple(first[:MOST_ROWS]), problem=str(error))
        problem = "" if found else "no storage of these classes meets the search"
    else:
        found = default_storages(view)
    wanted = list(dict.fromkeys([*first, *found]))
    return Chosen(tuple(wanted[:MOST_ROWS]), max(0, len(wanted) - MOST_ROWS), problem)


def default_storages(view: StepView) -> list[int]:
    """Those that delay compute most, then the largest that move; where nothing moves, the largest."""
    storages = view.profile.schedule.graph.storages
    stalls = stalls_of(view)
    moved = dict.fromkeys(view.placements.move_storage.tolist())

    def largest(these: Sequence[int]) -> list[int]:
        return sorted(these, key=lambda s: (-storages[s].bytes, s))

    stalling = sorted((s for s, ns in stalls.items() if ns), key=lambda s: (-stalls[s], s))[:STALLING]
    chosen = [*stalling, *(s for s in largest(list(moved)) if s not in stalling)]
    if not chosen:
        chosen = largest(range(len(storages)))
    return chosen[: STALLING + LARGEST]


def stalls_of(view: StepView) -> dict[int, int]:
    """Blocking time (ns) of all transfers of each storage that moves."""
    result: dict[int, int] = {}
    for transfer, verdict in view.verdicts.items():
        storage = view.transfers[transfer].storage
        result[storage] = result.get(storage, 0) + verdict.blocking_ns
    return result


def _matching(view: StepView, search: str, classes: Sequence[str]) -> list[int]:
    """What is found, storages that move first, the largest first."""
    storages = view.profile.schedule.graph.storages
    if search.strip():
        found = find(view.searchable, parse_query(f"in:storages {search}"))
        if not found.hits:
            raise UserError(found.hint or "nothing meets this search")
        hits = found.hits["storage"]
        ids = hits.things.ids[hits.rows].tolist()
    else:
        ids = list(range(len(storages)))
    moved = set(view.placements.move_storage.tolist())
    kept = [s for s in ids if not classes or storages[s].tensor_class in classes]
    return sorted(kept, key=lambda s: (s not in moved, -storages[s].bytes, s))


def figure(tiers: Tiers, window: tuple[int, int], cursor_ns: int | None = None) -> dict[str, Any]:
    """The chart as a plotly document, showing ``window`` (ns)."""
    return {
        "data": list(traces(tiers.view, tiers.bars, _wide(tiers, window))),
        "layout": layout(tiers, window, cursor_ns),
    }


def _wide(tiers: Tiers, window: tuple[int, int]) -> tuple[int, int]:
    # Half a window more on each side, so that a pan shows something before the answer to it arrives.
    margin = (window[1] - window[0]) // 2
    return max(0, window[0] - margin), min(tiers.view.end_ns, window[1] + margin)


def layout(tiers: Tiers, window: tuple[int, int], cursor_ns: int | None) -> dict[str, Any]:
    count = max(1, len(tiers.storages))
    end_ms = tiers.view.end_ns / MS
    return {
        **theme.figure_layout(tiers.height),
        "barmode": "overlay",
        "bargap": 0,
        "hovermode": "closest",
        # A click beside a tick means the row.
        "hoverdistance": 6,
        "clickanywhere": True,
        "xaxis": theme.axis(
            range=[window[0] / MS, window[1] / MS],
            minallowed=-end_ms * 0.02,
            maxallowed=end_ms * 1.02,
            **theme.MILLISECONDS,
            # Another revision, so that the browser takes this range instead of the one the user left.
            uirevision=f"{window}",
        ),
        "yaxis": {"range": [count, 0], "fixedrange": True, "visible": False},
        "shapes": [cursor_shape(cursor_ns), *(_line(row) for row in range(1, len(tiers.storages)))],
        "annotations": [
            {
                "xref": "paper",
                "x": 0,
                "xanchor": "left",
                "xshift": 2,
                "y": row + 0.24,
                "yanchor": "middle",
                "text": label(shown),
                "showarrow": False,
                "font": {"size": 11},
                "align": "left",
            }
            for row, shown in enumerate(tiers.rows)
        ],
    }


def label(row: Row) -> str:
    """What stands above a bar."""
    words = [theme.class_title(row.tensor_class), format_bytes(row.bytes)]
    if row.transfers:
        words.append(f"{row.transfers} transfer{'s' if row.transfers > 1 else ''}")
    if row.blocking_ns:
        words.append(f"blocks {format_ns(row.blocking_ns)}")
    return f"<b>{plain(visible(row.name, NAME_LETTERS))}</b>  {' · '.join(words)}"


def _line(row: int) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": row,
        "y1": row,
        "line": {"color": "rgba(128,142,166,0.25)", "width": 1},
    }


def clicked(tiers: Tiers, click: dict[str, Any] | None) -> tuple[tuple[str, int] | None, int | None]:
    """What a click on the chart means: a transfer, an op that accesses a storage, or the storage of a row; and the
    time (ns)."""
    time = clicked_time(click)
    for point in (click or {}).get("points", ()):
        data = point.get("customdata")
        if isinstance(data, list) and len(data) == 3:
            return ("op", int(data[2])), time
        if isinstance(data, list) and len(data) == 2 and data[1] >= 0:
            return ("transfer", int(data[1])), time
        if isinstance(data, list) and len(data) == 2:
            return ("storage", int(data[0])), time
    levels = (click or {}).get("yvals")
    storage = tiers.row_at(float(levels[0])) if levels else None
    return (None if storage is None else ("storage", storage)), time
