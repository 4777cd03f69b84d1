"""What a step takes at least because what is at work at once has to fit on the device (proof in docs/scheduling.md).

Of the storages that leave, only so many bytes may be on the device at a time as all of them have more than what is over
the limit. Those on their way in or out and those that the running op uses are there. A linear program splits the step
into kinds of moments that fit: what is used, arrives and leaves in them.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod

import numpy as np

from hyperoffload_core.analysis.linear import LinearProgram
from hyperoffload_core.analysis.whole_moves import least_bytes_back, returning_storages
from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph, storages_of

_MOST_MOMENTS = 4000
"""Where there are more kinds of moments nothing is worked out."""
_TOLERANCE = 1e-6
"""By how much a bound is lowered so that the solver's own tolerance cannot make it too high."""


@dataclass(frozen=True)
class _Group:
    """Storages with the same accesses: their sizes, and how long ops that write them and all others use them."""

    sizes: tuple[int, ...]
    written: bool
    writing_ns: int
    reading_ns: int


@dataclass(frozen=True)
class _Part:
    """The storages of a group that leave: the group's number and their sizes."""

    group: int
    sizes: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


_Use = tuple[tuple[int, bool], ...]
"""Numbers of the parts that an op uses, each with whether it is written."""
_Piece = tuple[int, bool]
"""Storages of a size that the step writes, or does not."""
_Work = tuple[str, tuple[int, bool]]
"""What takes time: "use" of a part, "in" or "out" of a piece."""


@dataclass(frozen=True)
class _Moment:
    """Parts that the running op uses, what arrives and what leaves; ``bytes`` of what leaves are then on the device."""

    bytes: int
    used: _Use
    arriving: _Piece | None
    leaving: _Piece | None

    def work(self) -> Iterator[_Work]:
        yield from (("use", part) for part in self.used)
        if self.arriving is not None:
            yield "in", self.arriving
        if self.leaving is not None:
            yield "out", self.leaving


@dataclass(frozen=True)
class _Step:
    """``counts`` says how many groups there are that are alike, each of which leaves with one of its parts at most."""

    groups: tuple[_Group, ...]
    counts: tuple[int, ...]
    parts: tuple[_Part, ...]
    moments: tuple[_Moment, ...]


def at_work_bound_ns(
    graph: Graph, durations_ns: Sequence[int], hardware: Hardware, limit_bytes: int, known_ns: int
) -> int:
    """What every step takes at least, in ns, given another such bound; it if this one says no more."""
    returning = returning_storages(graph)
    over = sum(graph.storages[s].bytes for s in returning) - limit_bytes
    step = _step(graph, durations_ns, hardware, returning) if over > 0 and known_ns > 0 else None
    if step is None:
        return known_ns
    back = least_bytes_back(graph, limit_bytes)
    free = sorted({moment.bytes for moment in step.moments})

    def least(low: int, high: int) -> float:
        """With so much on the device at once as ``free[low]`` or more, but less than ``free[high + 1]``."""
        return _least_ns(step, hardware, max(back, over + free[low]), free[high], known_ns)

    spans = [(least(0, len(free) - 1), 0, len(free) - 1)]
    while True:
        shortest, low, high = heapq.heappop(spans)
        if low == high or shortest in (0.0, inf):
            return known_ns if shortest == inf else max(known_ns, int(shortest * (1 - _TOLERANCE)))
        middle = (low + high) // 2
        for first, last in ((low, middle), (middle + 1, high)):
            heapq.heappush(spans, (max(shortest, least(first, last)), first, last))


def _step(graph: Graph, durations_ns: Sequence[int], hardware: Hardware, returning: Sequence[int]) -> _Step | None:
    """None where there are too many kinds of moments."""
    members: dict[tuple[tuple[int, bool], ...], list[int]] = {}
    for storage in returning:
        members.setdefault(tuple((a.op, a.writes) for a in graph.accesses[storage]), []).append(storage)
    counts: Counter[_Group] = Counter()
    group_of: dict[int, tuple[int, _Group]] = {}
    for number, (accesses, storages) in enumerate(members.items()):
        writing = {op for op, writes in accesses if writes}
        group = _Group(
            tuple(sorted(graph.storages[s].bytes for s in storages)),
            bool(writing),
            sum(durations_ns[op] for op in writing),
            sum(durations_ns[op] for op in {op for op, _ in accesses} - writing),
        )
        counts[group] += 1
        group_of.update(dict.fromkeys(storages, (number, group)))
    groups = tuple(counts)
    if sum(prod(n + 1 for n in Counter(g.sizes).values()) for g in groups) > _MOST_MOMENTS:
        return None
    parts = tuple(_Part(number, sizes) for number, g in enumerate(groups) for sizes in _choices(g.sizes) if sizes)
    uses = _uses(graph, group_of, groups, parts)
    pieces = sorted({(size, g.written) for g in groups for size in g.sizes})
    if uses is None or len(uses) * (len(pieces) + 1) * (1 + sum(written for _, written in pieces)) > _MOST_MOMENTS:
        return None
    leaving = [None, *(piece for piece in pieces if piece[1])]
    moments = []
    for use, into, out in product(uses, [None, *pieces], leaving):
        if into is None or out is None or hardware.duplex == "full":
            inside = {(b, groups[parts[p].group].written) for p, writes in use if not writes for b in parts[p].sizes}
            size = sum(parts[p].bytes for p, _ in use) + (into[0] if into else 0)
            moments.append(_Moment(size + (out[0] if out and out not in inside else 0), use, into, out))
    return _Step(groups, tuple(counts.values()), parts, tuple(moments))


def _uses(
    graph: Graph, group_of: dict[int, tuple[int, _Group]], groups: Sequence[_Group], parts: Sequence[_Part]
) -> list[_Use] | None:
    """What ops may use of the storages that leave; None where there is too much."""
    numbers = {group: number for number, group in enumerate(groups)}
    parts_of = [[p for p, part in enumerate(parts) if part.group == g] for g in range(len(groups))]
    together: set[tuple[tuple[int, bool], ...]] = set()
    for op in graph.ops:
        touched = {group_of[s]: s in op.writes for s in storages_of(op) if s in group_of}
        together.add(tuple(sorted((numbers[group], writes) for (_, group), writes in touched.items())))
    if sum(prod(len(parts_of[g]) + 1 for g, _ in used) for used in together) > _MOST_MOMENTS:
        return None
    uses: set[_Use] = set()
    for used in together:
        ways = [[None, *((p, writes) for p in parts_of[g])] for g, writes in used]
        uses |= {tuple(sorted(one for one in chosen if one is not None)) for chosen in product(*ways)}
    return sorted(uses)


def _choices(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All that can be taken of these, those of the same size not told apart."""
    counts = Counter(sizes)
    for taken in product(*(range(count + 1) for count in counts.values())):
        yield tuple(size for size, count in zip(counts, taken, strict=True) for _ in range(count))


def _wanted(group: _Group, part: int, sizes: Sequence[int], hardware: Hardware) -> Counter[_Work]:
    """ns that each kind of work takes for a part that leaves."""
    wanted: Counter[_Work] = Counter(
        {("use", (part, True)): group.writing_ns, ("use", (part, False)): group.reading_ns}
    )
    for size in sizes:
        wanted["in", (size, group.written)] += transfer_ns(size, hardware.link_in)
        if group.written:
            wanted["out", (size, True)] += transfer_ns(size, hardware.link_out)
    return +wanted


def _least_ns(step: _Step, hardware: Hardware, leaving_bytes: int, most_bytes: int, known_ns: int) -> float:
    """The shortest step in which so many bytes leave and no moment has more of them on the device; 0 where the solver
    gave no answer, infinite where there is none."""
    program = LinearProgram()
    done: dict[_Work, list[tuple[int, float]]] = {}
    for moment in step.moments:
        if moment.bytes <= most_bytes:
            column = program.column(upper=inf)
            for work, times in Counter(moment.work()).items():
                done.setdefault(work, []).append((column, -float(times)))
    time_columns = program.columns
    wanted: dict[_Work, list[tuple[int, float]]] = {}
    leaving: dict[int, list[tuple[int, float]]] = {}
    for number, part in enumerate(step.parts):
        work_ns = _wanted(step.groups[part.group], number, part.sizes, hardware)
        if all(work in done for work in work_ns):
            column = program.column(upper=float(step.counts[part.group]))
            leaving.setdefault(part.group, []).append((column, part.bytes))
            for work, ns in work_ns.items():
                wanted.setdefault(work, []).append((column, ns / known_ns))
    if sum(step.counts[g] * max(size for _, size in columns) for g, columns in leaving.items()) < leaving_bytes:
        return inf
    for work, terms in wanted.items():
        program.at_most([*terms, *done[work]], 0.0)
    for group, columns in leaving.items():
        program.at_most([(column, 1.0) for column, _ in columns], float(step.counts[group]))
    program.at_most([(c, -size / leaving_bytes) for columns in leaving.values() for c, size in columns], -1.0)
    cost = np.zeros(program.columns)
    cost[:time_columns] = 1.0
    answer = program.minimise(cost)
    return 0.0 if answer is None else answer[0] * known_ns
