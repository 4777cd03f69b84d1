"""Splits transfers that hold up a more urgent one on their link, in a plan that has addresses.

A link runs one transfer at a time, so one that becomes possible while a large one runs waits for all of it. Where the
end of the step waits for that, the urgent one goes ahead: the running one is cut where the urgent one could start, its
rest and what else ran in between follow, if they have that much time. A link that stood idle before is filled likewise:
the urgent one, or as much of it as fits, moves there. Every plan so made is timed; it stays where the step got shorter.

Only the order on the links and the parts change. Who shares bytes with whom, and in which order, stays as it is, so
that the edges of the new plan keep it safe under any timing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.addresses import alignment_bytes
from hyperoffload_core.passes.events import Edges
from hyperoffload_core.passes.plan import Plan, moved_bytes
from hyperoffload_core.passes.timing import time_plan
from hyperoffload_core.simulator import DeadlockError

_TRIES = 16
"""Plans that are timed; one of 800 transfers takes 10 to 20 ms."""
_WORTH = 8
"""A part takes at least this many times its link's latency, so that what splitting costs is small beside it."""
_FARTHEST = 32
"""How many transfers one may go ahead of."""
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Change:
    """``moved`` goes ahead of the transfer at ``place`` of its link. ``cut``, that transfer or ``moved`` itself, is
    split behind ``cut_bytes``: the part of the former stays ahead of ``moved``, the rest of the latter where it was.

    ``gain_ns``: how much earlier the step may end for it, at most.
    """

    gain_ns: int
    link: int
    moved: int
    place: int
    cut: int | None = None
    cut_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """Places ``first`` to ``last`` of a link: each but the first waited for the link only, the end of the step for all.

    ``wins_ns``: how much earlier what waits for the last one could start if that were there at once.
    """

    link: int
    first: int
    last: int
    wins_ns: int


def split_transfers(graph: Graph, plan: Plan, durations_ns: Sequence[int], hardware: Hardware) -> Plan:
    """A plan whose step is shorter by transfers in parts or in another order on their link; else the given one.

    ``plan`` has offsets; ``durations_ns`` is indexed by op id. Raises `DeadlockError` if the given plan waits in a
    circle.
    """
    timed = _Timed(graph, plan, durations_ns, hardware)
    tries, failed = 0, set[tuple[int, int, int | None]]()
    while tries < _TRIES:
        changes = _best_of_each(c for c in timed.changes() if (c.moved, c.place, c.cut) not in failed)
        better: _Timed | None = None
        for change in changes[: _TRIES - tries]:
            tries += 1
            try:
                candidate = _Timed(graph, timed.changed(change), durations_ns, hardware)
            except DeadlockError:
                candidate = None
            if candidate is not None and candidate.step_ns < timed.step_ns:
                better = candidate
                break
            failed.add((change.moved, change.place, change.cut))
        if better is None:
            break
        timed = better
    return timed.plan


def _best_of_each(changes: Iterable[_Change]) -> list[_Change]:
    """Per transfer to move the change that promises most, the most promising first."""
    best: dict[int, _Change] = {}
    for change in changes:
        if change.moved not in best or change.gain_ns > best[change.moved].gain_ns:
            best[change.moved] = change
    return sorted(best.values(), key=lambda c: -c.gain_ns)


class _Timed:
    """A plan with its edges and times, and the changes that may shorten its step."""

    def __init__(self, graph: Graph, plan: Plan, durations_ns: Sequence[int], hardware: Hardware) -> None:
        self.graph, self.plan, self.hardware = graph, plan, hardware
        edges, times, self.step_ns = time_plan(graph, plan, durations_ns, hardware)
        self.edges: Edges = edges
        self.op_start, self.op_end = times.op_start.tolist(), times.op_end.tolist()
        self.start, self.end = times.transfer_start.tolist(), times.transfer_end.tolist()
        self.place_of = {index: (link, k) for link, run in enumerate(plan.links) for k, index in enumerate(run)}

    def changes(self) -> Iterator[_Change]:
        runs = [run for run in self._critical_runs() if run.first < run.last]
        if not runs:
            return
        spare = self._spare_ns()
        for run in runs:
            yield from self._last_ahead(run, spare)
            yield from self._into_idle(run)

    def changed(self, change: _Change) -> Plan:
        """The plan after the change, without its times."""
        transfers = list(self.plan.transfers)
        run = list(self.plan.links[change.link])
        old = run.index(change.moved)
        following: list[int] = []
        if change.cut is not None:
            whole = transfers[change.cut]
            first, size = change.cut_bytes, moved_bytes(self.graph, whole)
            head = change.cut if whole.part_of is None else whole.part_of
            rest = replace(whole, bytes=size - first, offset_bytes=whole.offset_bytes + first, part_of=head)
            following = [len(transfers)]
            transfers[change.cut] = replace(whole, bytes=first)
            transfers.append(rest)
        if change.cut == change.moved:
            run[old : old + 1] = following
            run.insert(change.place, change.moved)
        else:
            del run[old]
            at = change.place if change.cut is None else change.place + 1
            run[at:at] = [change.moved, *following]
        links = (*self.plan.links[: change.link], tuple(run), *self.plan.links[change.link + 1 :])
        return replace(self.plan, transfers=tuple(transfers), links=links)

    def _critical_runs(self) -> Iterator[_Run]:
        """Runs of transfers that the end of the step waits for."""
        order, edges = self.plan.order, self.edges
        position = {op: p for p, op in enumerate(order)}
        op: int | None = order[-1] if order and self.op_end[order[-1]] == self.step_ns else None
        last: int | None = None
        wins_ns = 0
        if op is None:
            ends = [self.op_end[order[-1]] if order else 0, *(self.end[run[-1]] for run in self.plan.links if run)]
            last = next((run[-1] for run in self.plan.links if run and self.end[run[-1]] == self.step_ns), None)
            wins_ns = self.step_ns - sorted(ends)[-2] if last is not None else 0
        while op is not None or last is not None:
            if op is not None:
                start, before = self.op_start[op], order[position[op] - 1] if position[op] else None
                free = 0 if before is None else self.op_end[before]
                last = None if free == start else next((t for t in edges.op_waits[op] if self.end[t] == start), None)
                wins_ns = start - max([free, *(self.end[t] for t in edges.op_waits[op] if t != last)])
                op = before if free == start else None
            elif last is not None:
                link, place = self.place_of[last]
                sequence, first = self.plan.links[link], place
                while first and self.start[sequence[first]] > self._ready_ns(sequence[first]):
                    first -= 1
                yield _Run(link, first, place, wins_ns)
                head, last = sequence[first], None
                start, needs = self.start[head], edges.needs.get(head, ())
                op = next((o for o in edges.after_ops[head] if start and self.op_end[o] == start), None)
                if op is None:
                    last = next((t for t in needs if start and self.end[t] == start), None)
                    free = self.end[sequence[first - 1]] if first else 0
                    wins_ns = start - max([free, *(self.end[t] for t in needs if t != last)])

    def _ready_ns(self, index: int) -> int:
        """When the transfer could start if its link were free."""
        ops_end = max((self.op_end[op] for op in self.edges.after_ops[index]), default=0)
        return max(ops_end, max((self.end[t] for t in self.edges.needs.get(index, ())), default=0))

    def _spare_ns(self) -> list[int]:
        """Per transfer how much later it may end before the step does, if what follows on its link could give way."""
        order, edges, start, end = self.plan.order, self.edges, self.start, self.end
        op_latest, latest, own = ([self.step_ns] * n for n in (len(self.op_end), len(end), len(end)))
        events = [(self.op_end[op], 1, p) for p, op in enumerate(order)]
        events += [(end[index], 0, index) for index in self.place_of]
        for _, is_op, number in sorted(events, reverse=True):
            if is_op:
                op = order[number]
                latest_start = op_latest[op] - (self.op_end[op] - self.op_start[op])
                if number:
                    op_latest[order[number - 1]] = min(op_latest[order[number - 1]], latest_start)
                waits: Sequence[int] = edges.op_waits[op]
            else:
                latest[number] = min(latest[number], own[number])
                latest_start = latest[number] - (end[number] - start[number])
                for op in edges.after_ops[number]:
                    op_latest[op] = min(op_latest[op], latest_start)
                link, place = self.place_of[number]
                if place:
                    before = self.plan.links[link][place - 1]
                    latest[before] = min(latest[before], latest_start)
                waits = edges.after_transfers[number]
            for index in waits:
                own[index] = min(own[index], latest_start)
        return [o - e for o, e in zip(own, end, strict=True)]

    def _last_ahead(self, run: _Run, spare: Sequence[int]) -> Iterator[_Change]:
        """Let the transfer that is waited for go ahead of others of its run, as far as these have time."""
        sequence, start, end = self.plan.links[run.link], self.start, self.end
        index = sequence[run.last]
        ready, duration = self._ready_ns(index), end[index] - start[index]
        storage, least_spare, most_ns = self.plan.transfers[index].storage, self.step_ns, run.wins_ns
        for behind in range(run.last + 1, len(sequence)):  # those that the link, still busy, runs no earlier
            if start[sequence[behind]] > end[sequence[behind - 1]] or most_ns <= 0:
                break
            most_ns = min(most_ns, spare[sequence[behind]])
        if most_ns <= 0:
            return
        for place in range(run.last - 1, max(run.first, run.last - _FARTHEST) - 1, -1):
            before = sequence[place]
            least_spare = min(least_spare, spare[before])
            if least_spare <= duration or self.plan.transfers[before].storage == storage:
                return
            latency_ns = self._wire(before).latency_ns
            part = self._part_bytes(before, ready - start[before])
            gain = min(most_ns, start[index] - ready, least_spare - duration - latency_ns)
            if part and gain > 0:
                yield _Change(gain, run.link, index, place, cut=before, cut_bytes=part)
            stands_ns = max(0, ready - start[before])
            gain = min(most_ns, start[index] - max(ready, start[before]), least_spare - duration - stands_ns)
            if gain > 0:
                yield _Change(gain, run.link, index, place)
            if start[before] <= ready:
                return

    def _into_idle(self, run: _Run) -> Iterator[_Change]:
        """Let transfers of a run, or parts of them, use the time in which the link stands idle before it."""
        sequence, start, end = self.plan.links[run.link], self.start, self.end
        members, most_ns = list[tuple[int, int, int]](), run.wins_ns
        for index in reversed(sequence[run.first + 1 : run.last + 1]):
            ready = self._ready_ns(index)
            members.append((ready, index, most_ns))
            most_ns = min(most_ns, start[index] - ready)  # those behind move up no further than they could start
        for place in range(run.first, max(-1, run.first - _FARTHEST), -1):
            free, until = end[sequence[place - 1]] if place else 0, start[sequence[place]]
            if free == until:
                continue
            for ready, index, most_ns in members:
                idle_ns, duration = until - max(ready, free), end[index] - start[index]
                if idle_ns <= 0 or self._passes_own(sequence, place, index):
                    continue
                if idle_ns >= duration:
                    yield _Change(min(duration, most_ns), run.link, index, place)
                    continue
                part = self._part_bytes(index, idle_ns)
                if part:
                    gain = min(idle_ns - self._wire(index).latency_ns, most_ns)
                    yield _Change(gain, run.link, index, place, cut=index, cut_bytes=part)

    def _passes_own(self, sequence: Sequence[int], place: int, index: int) -> bool:
        """Whether the transfer would go ahead of another of its storage."""
        storage = self.plan.transfers[index].storage
        passed = sequence[place : self.place_of[index][1]]
        return any(self.plan.transfers[other].storage == storage for other in passed)

    def _wire(self, index: int) -> Link:
        return self.hardware.link_out if self.plan.transfers[index].kind == "store" else self.hardware.link_in

    def _part_bytes(self, index: int, room_ns: int) -> int:
        """The first part of the transfer that ends within ``room_ns``; 0 if it or the rest would be too small."""
        transfer, link = self.plan.transfers[index], self._wire(index)
        size = moved_bytes(self.graph, transfer)
        aligned = alignment_bytes(size)
        least = max(aligned, -(-_WORTH * link.latency_ns * link.bytes_per_s // _NANOSECONDS))
        part = max(0, room_ns - link.latency_ns) * link.bytes_per_s // _NANOSECONDS // aligned * aligned
        return part if part >= least and size - part >= least else 0
