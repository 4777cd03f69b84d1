"""One step of a profile as lanes, stays and verdicts, computed once: what the run page's charts and tables read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyperoffload_core.explain.verdicts import TransferVerdict, transfer_verdicts
from hyperoffload_core.metrics import Column, covered_ns, union_ns
from hyperoffload_core.recording import Profile, ProfileKind
from hyperoffload_core.schedule import Transfer
from profiles.lanes import Lane, Lanes, lanes, part_words
from profiles.series import MemoryCurve, memory_curve


@dataclass(frozen=True)
class StepView:
    """One step of a profile. Times are ns from the start of the step."""

    profile: Profile
    step: int = 0

    @property
    def kind(self) -> ProfileKind:
        return self.profile.kind

    @cached_property
    def lanes(self) -> Lanes:
        return lanes(self.profile, self.step)

    @cached_property
    def curve(self) -> MemoryCurve:
        """The exact memory curve by tensor class."""
        return memory_curve(self.profile, self.step)

    @cached_property
    def end_ns(self) -> int:
        """Where the time axis ends: the step's end, or the last event where that is later."""
        drawn = (self.lanes.compute, self.lanes.copy_in, self.lanes.copy_out)
        return max(int(self.profile.steps.step_ns[self.step]), *(int(lane.end_ns.max(initial=0)) for lane in drawn), 1)

    @cached_property
    def transfers(self) -> dict[int, Transfer]:
        """The schedule's transfers by id."""
        return {t.id: t for t in self.profile.schedule.transfers}

    @cached_property
    def parts(self) -> dict[int, str]:
        """``part 2 of 3``, by transfer id, of transfers that move a part of their storage."""
        return part_words(self.profile.schedule)

    @cached_property
    def verdicts(self) -> dict[int, TransferVerdict]:
        """What each transfer cost, by transfer id."""
        return {v.transfer: v for v in transfer_verdicts(self.profile, self.step)}

    @cached_property
    def times(self) -> dict[str, dict[int, tuple[int, int]]]:
        """Start and end of every op and transfer: ``times["op"][id]``, ``times["transfer"][id]``."""
        both = (self.lanes.copy_in, self.lanes.copy_out)
        return {
            "op": _by_item(self.lanes.compute),
            "transfer": {k: v for lane in both for k, v in _by_item(lane).items()},
        }

    def exposed(self, lane: Lane) -> Lane:
        """The parts of a copy lane with no compute beside them."""
        compute = self.lanes.compute
        start, end = subtract((lane.start_ns, lane.end_ns), (compute.start_ns, compute.end_ns))
        return Lane(np.arange(len(start)), start, end)


def inside(lane: Lane, window: tuple[int, int]) -> Lane:
    """The rectangles that touch the window. Those of a lane do not overlap, so their ends are sorted as well."""
    first = int(np.searchsorted(lane.end_ns, window[0], side="right"))
    last = int(np.searchsorted(lane.start_ns, window[1], side="left"))
    return Lane(lane.item[first:last], lane.start_ns[first:last], lane.end_ns[first:last])


def item_at(lane: Lane, time_ns: int) -> int | None:
    """The op or transfer that holds the time, None for a gap."""
    row = int(np.searchsorted(lane.start_ns, time_ns, side="right")) - 1
    return int(lane.item[row]) if row >= 0 and time_ns < lane.end_ns[row] else None


def subtract(spans: tuple[Column, Column], holes: tuple[Column, Column]) -> tuple[Column, Column]:
    """The union of ``spans`` without the union of ``holes``, as disjoint intervals in time order."""
    span, hole = union_ns(*spans), union_ns(*holes)
    edges = np.unique(np.concatenate([*span, *hole]))
    if len(edges) < 2:
        return span
    left, right = edges[:-1], edges[1:]
    kept = (covered_ns(left, right, span) > 0) & (covered_ns(left, right, hole) == 0)
    return union_ns(left[kept], right[kept])


def _by_item(lane: Lane) -> dict[int, tuple[int, int]]:
    columns = (lane.item.tolist(), lane.start_ns.tolist(), lane.end_ns.tolist())
    return {item: (start, end) for item, start, end in zip(*columns, strict=True)}
