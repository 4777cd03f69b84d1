"""What dragging a Prefetch on the timeline means: its storage, and how much earlier it is to start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np

from app.dashboard.views.lanes import MS
from app.dashboard.views.timeline import LANE_HEIGHT, Timeline
from hyperoffload_core.schedule import Schedule

# A shorter drag is a click.
LEAST_NS = 100
# Pixels beside a bar that still mean it.
REACH = 4


@dataclass(frozen=True, slots=True)
class Drag:
    """``name`` of the storage whose Prefetch was dragged, ``by_ns`` to the left."""

    name: str
    by_ns: int


def dragged(shown: Timeline, drag: dict[str, Any]) -> Drag | str:
    """What a drag from (``x`` ms, ``y`` on the lanes' axis) by ``by`` ms to the left means, or what is wrong with it in
    one sentence. Within `REACH` (pixels of ``pixel`` ms) the nearest bar is meant."""
    item = _nearest(shown, drag["x"] * MS, drag["y"], REACH * drag["pixel"] * MS)
    schedule = shown.main.profile.schedule
    name = prefetched_name(schedule, *item) if item is not None else None
    if name is None:
        return "Hold Shift and drag a copy in: only a Prefetch can start earlier."
    by_ns = round(float(drag["by"]) * MS)
    if by_ns < LEAST_NS:
        return "Drag the copy in to the left: a Prefetch can only start earlier."
    return Drag(name, by_ns)


def _nearest(shown: Timeline, time_ns: float, height: float, reach_ns: float) -> tuple[str, int] | None:
    """The op or transfer of the row at a height that is nearest to a time; a bar may be thinner than a pixel."""
    for row in shown.main.lanes.rows:
        if abs(height - shown.centres[row.key]) <= LANE_HEIGHT / 2 and len(row.lane.item):
            away = np.maximum(np.maximum(row.lane.start_ns - time_ns, time_ns - row.lane.end_ns), 0)
            nearest = int(np.argmin(away))
            return (row.kind, int(row.lane.item[nearest])) if away[nearest] <= reach_ns else None
    return None


def prefetched_name(schedule: Schedule, kind: str, identity: int) -> str | None:
    """The storage that a picked transfer brings back, or a picked storage that is brought back; None for all else. A
    second copy that holds a recomputed value counts for the storage whose value it is."""
    storage = None
    if kind == "transfer":
        found = next((t for t in schedule.transfers if t.id == identity), None)
        storage = found.storage if found is not None and found.kind == "prefetch" else None
    elif kind == "storage" and any(t.storage == identity and t.kind == "prefetch" for t in schedule.transfers):
        storage = identity
    if storage is None:
        return None
    origin = schedule.graph.storages[storage].recompute_of
    return schedule.graph.storages[storage if origin is None else origin].name


def earlier_address(run_id: int, drag: Drag) -> str:
    """The Tune page with a rule that starts the storage's Prefetches earlier."""
    return f"/tune/{run_id}?earlier={quote(f'{drag.name}:{drag.by_ns}', safe='')}"
