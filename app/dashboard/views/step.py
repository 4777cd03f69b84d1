"""One step of a profile as lanes, stays and verdicts, computed once: what the run page's charts and tables read."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from app.dashboard.views.graph_links import Links
from hyperoffload_core.explain.explanation import Explanation, explain
from hyperoffload_core.explain.step import as_recorded
from hyperoffload_core.explain.verdicts import TransferVerdict, transfer_verdicts
from hyperoffload_core.metrics import Column
from hyperoffload_core.recording import Profile, ProfileKind
from hyperoffload_core.schedule import Transfer
from profiles.addresses import Addresses, addresses
from profiles.lanes import Lane, Lanes, lanes, of_step, part_words, step_end_ns
from profiles.phases import phase_bands
from profiles.searching import Searchable, searchable
from profiles.series import MemoryCurve, memory_curve
from profiles.stacks import Grouping, Stack, Steps, memory_stack, needed, reserved
from profiles.tiers import Placements, placements
from profiles.whole import on_one_axis, step_starts_ns


@dataclass(frozen=True)
class StepView:
    """One step of a profile. Times are ns from the start of the step."""

    profile: Profile
    step: int = 0
    _stacks: dict[Grouping, Stack] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def kind(self) -> ProfileKind:
        return self.profile.kind

    @property
    def own(self) -> int | None:
        """The step whose rows of the profile are shown, None for those of all."""
        return self.step

    @cached_property
    def lanes(self) -> Lanes:
        return lanes(self.profile, self.own)

    @cached_property
    def phases(self) -> list[tuple[str, int, int]]:
        """(phase, start_ns, end_ns) of the stretches in which ops of one phase take most of the compute time."""
        return phase_bands(self.profile.schedule.graph, self.lanes.compute, self.end_ns)

    @cached_property
    def curve(self) -> MemoryCurve:
        """The exact memory curve by tensor class."""
        return memory_curve(self.profile, self.step)

    def stack(self, by: Grouping) -> Stack:
        """The same memory split by class, layer, phase or tier, kept in a form that is thinned quickly."""
        if by not in self._stacks:
            self._stacks[by] = memory_stack(self.profile, by, self.own)
        return self._stacks[by]

    @property
    def live(self) -> Steps:
        """What is on the device over time."""
        return self.stack("class").total

    @cached_property
    def peak(self) -> tuple[int, int]:
        """``(time_ns, bytes)`` of the first moment at which most is on the device."""
        return self.live.peak

    @cached_property
    def needed(self) -> Steps:
        """The theoretical memory over time."""
        return needed(self.profile, self.own)

    @cached_property
    def reserved(self) -> Steps:
        """The address space in use over time."""
        return reserved(self.profile, self.own)

    @cached_property
    def placements(self) -> Placements:
        """Where each storage is, tier by tier."""
        return placements(self.profile, self.end_ns, self.step)

    @cached_property
    def addresses(self) -> Addresses:
        """Every stay at its address."""
        return addresses(self.profile, self.step)

    @cached_property
    def links(self) -> Links:
        """The schedule as one graph of ops and cache operators."""
        return Links(self.profile.schedule)

    @cached_property
    def searchable(self) -> Searchable:
        """What a search in this step looks through."""
        return searchable(self.profile, self.step, self.peak[0], self.verdicts.values())

    @cached_property
    def returns(self) -> tuple[Column, Column]:
        """Ends of Stores and the starts of the next Prefetch of the same storage, row by row."""
        moves = self.profile.transfers
        rows = np.flatnonzero(of_step(moves.step, self.own))
        rows = rows[np.lexsort((moves.start_ns[rows], moves.storage[rows]))]
        left, back = rows[:-1], rows[1:]
        pair = (moves.storage[left] == moves.storage[back]) & (moves.direction[left] < moves.direction[back])
        return moves.end_ns[left[pair]], moves.start_ns[back[pair]]

    @cached_property
    def end_ns(self) -> int:
        """Where the time axis ends."""
        return step_end_ns(self.profile, self.lanes, self.step)

    @cached_property
    def transfers(self) -> dict[int, Transfer]:
        """The transfers of this step by id."""
        return {t.id: t for t in as_recorded(self.profile, self.step).transfers}

    @cached_property
    def parts(self) -> dict[int, str]:
        """``part 2 of 3``, by transfer id, of transfers that move a part of their storage."""
        return part_words(self.profile.schedule)

    @cached_property
    def verdicts(self) -> dict[int, TransferVerdict]:
        """What each transfer cost, by transfer id."""
        return {v.transfer: v for v in transfer_verdicts(self.profile, self.step)}

    @cached_property
    def explanation(self) -> Explanation:
        """All that explains the step. On large graphs it takes seconds, so it is asked for when the page is there."""
        return explain(self.profile, self.step or 0)

    @cached_property
    def times(self) -> dict[str, dict[int, tuple[int, int]]]:
        """Start and end of every op and transfer: ``times["op"][id]``, ``times["transfer"][id]``."""
        both = (self.lanes.copy_in, self.lanes.copy_out)
        return {
            "op": _by_item(self.lanes.compute),
            "transfer": {k: v for lane in both for k, v in _by_item(lane).items()},
        }


@dataclass(frozen=True)
class RunView(StepView):
    """All steps of a run on one time axis (`profiles.whole`); step ``i`` lasts from ``starts_ns[i]`` to
    ``starts_ns[i + 1]``. Ops and transfers occur once a step in it: what explains one of them is its step's view."""

    starts_ns: tuple[int, ...] = ()

    @property
    def own(self) -> None:
        return None

    @cached_property
    def end_ns(self) -> int:
        return max(self.starts_ns[-1], 1)

    def step_at(self, time_ns: int) -> tuple[int, int]:
        """The step at a time, and the time in it."""
        step = min(max(bisect_right(self.starts_ns, time_ns) - 1, 0), len(self.starts_ns) - 2)
        return step, max(time_ns - self.starts_ns[step], 0)


def run_view(profile: Profile) -> RunView:
    """All steps of a recorded profile."""
    return RunView(on_one_axis(profile), starts_ns=tuple(step_starts_ns(profile).tolist()))


def item_at(lane: Lane, time_ns: int) -> int | None:
    """The op or transfer that holds the time, None for a gap."""
    row = int(np.searchsorted(lane.start_ns, time_ns, side="right")) - 1
    return int(lane.item[row]) if row >= 0 and time_ns < lane.end_ns[row] else None


def _by_item(lane: Lane) -> dict[int, tuple[int, int]]:
    columns = (lane.item.tolist(), lane.start_ns.tolist(), lane.end_ns.tolist())
    return {item: (start, end) for item, start, end in zip(*columns, strict=True)}
