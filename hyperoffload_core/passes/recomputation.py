"""Recomputation: ops run a second time, so that what they made need not stay on the device between two uses.

`recompute` adds the second runs to a graph. A recomputed op stands just ahead of the op it is for, so that captured
order stays a topological order in which readers see the latest write before them; ops behind it therefore get new ids
(`Graph.origins` says whose work each does), while storages keep theirs and copies come behind them. `Graph.original`
is the way back.

An op may run again only if a second run gives the same bytes and disturbs nothing (`repeatable`), and only where the
values it read can still be had: storages nobody has written since, or copies recomputed before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from hyperoffload_core.ir import Graph, Op, Storage, TensorClass, dependencies

_START = -1
# Longer chains are a segment's worth of work: a copy over any link costs less.
_LONGEST_CHAIN = 32


class RecomputationError(ValueError):
    """A recomputation that would change a result; the message names the op."""


@dataclass(frozen=True, slots=True)
class Recomputation:
    """Run ``ops`` again just ahead of op ``before``; ``readers`` read the new values. Ids of the original graph.

    ``ops`` ascend. Each takes what it reads from the copies made before it where there are any, else from the original
    storages. ``readers`` are ops from ``before`` on; of every op that runs again they read the copies, except of what
    they update in place, and the other ops go on reading the originals.
    """

    ops: tuple[int, ...]
    before: int
    readers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecomputeCandidate:
    """A reuse gap that recomputation would free.

    ``gap`` numbers the gaps of ``storage`` in captured order as `analysis.lifetimes.Gap` does. ``cost_ns`` is what the
    ops take. At most ``extra_bytes`` are needed while they run, beside what is on the device there without any offload
    (the storage itself included): results on the way, workspaces, and inputs that would have been gone.
    """

    storage: int
    gap: int
    bytes: int
    recomputation: Recomputation
    cost_ns: int
    extra_bytes: int


class Versions:
    """Which op wrote the value an op reads. Ids of the graph in captured order; -1 is the start of the step."""

    def __init__(self, graph: Graph) -> None:
        self._writers: list[list[int]] = [[] for _ in graph.storages]
        for op in graph.ops:
            for storage in op.writes:
                self._writers[storage].append(op.id)

    def writer_before(self, storage: int, op: int) -> int:
        """The last op before ``op`` that writes the storage."""
        writers = self._writers[storage]
        place = bisect_left(writers, op)
        return writers[place - 1] if place else _START


def repeatable(graph: Graph, op: Op) -> bool:
    """Whether a second run gives the same and disturbs nothing: no random numbers or other state, nothing written in
    place, nothing that outlives the step but outputs, which a copy leaves alone."""
    return (
        not op.stateful
        and bool(op.writes)
        and set(op.reads).isdisjoint(op.writes)
        and not any(graph.exists_at_start(s) for s in op.writes)
    )


def recompute(graph: Graph, recomputations: Iterable[Recomputation]) -> Graph:
    """The graph with the recomputed ops and storages added.

    Raises `RecomputationError` for an op that must not or can no longer run again, and for a reader that reads nothing
    of what is recomputed, or only what it writes in place.
    """
    ahead: dict[int, list[Recomputation]] = {}
    for item in recomputations:
        _check(graph, item)
        ahead.setdefault(item.before, []).append(item)
    versions = Versions(graph)
    storages = list(graph.storages)
    sequence: list[Op] = []  # ids and ``after`` still those of the original graph
    copies: dict[tuple[int, int], int] = {}  # the latest copy of what an op wrote to a storage
    served: dict[tuple[int, int], int] = {}  # what a reader reads in place of a storage
    runs: dict[int, int] = {}

    def again(op: Op, before: Op) -> Op:
        reads = []
        for storage in op.reads:
            writer = versions.writer_before(storage, op.id)
            if (storage, writer) not in copies and versions.writer_before(storage, before.id) != writer:
                name = graph.storages[storage].name
                raise RecomputationError(
                    f"op {op.name!r} cannot run again ahead of op {before.name!r}: {name!r} was written meanwhile"
                )
            reads.append(copies.get((storage, writer), storage))
        runs[op.id] = runs.get(op.id, 0) + 1
        mark = " (recomputed)" if runs[op.id] == 1 else f" (recomputed {runs[op.id]})"
        writes = []
        for storage in op.writes:
            writes.append(len(storages))
            storages.append(_copy(graph.storages[storage], len(storages), mark))
        copies.update({(s, op.id): new for s, new in zip(op.writes, writes, strict=True)})
        return replace(
            op, name=op.name + mark, phase=before.phase, reads=tuple(reads), writes=tuple(writes), recompute_of=op.id
        )

    for op in graph.ops:
        for item in ahead.get(op.id, ()):
            sequence += [again(graph.ops[o], op) for o in item.ops]
            done = set(item.ops)
            for reader in item.readers:
                read = graph.ops[reader].reads
                found = [(s, w) for s in read if (w := versions.writer_before(s, reader)) in done]
                free = [(s, w) for s, w in found if s not in graph.ops[reader].writes]
                if not free:
                    why = "writes in place what" if found else "reads nothing of what"
                    name = graph.ops[reader].name
                    raise RecomputationError(f"op {name!r} {why} is recomputed ahead of op {op.name!r}")
                served.update({(reader, s): copies[s, w] for s, w in free})
        sequence.append(replace(op, reads=tuple(served.get((op.id, s), s) for s in op.reads)))
    return Graph(graph.name, _numbered(sequence), tuple(storages), graph.notes)


def _check(graph: Graph, item: Recomputation) -> None:
    before = graph.ops[item.before]
    if before.recompute_of is not None or any(graph.ops[o].recompute_of is not None for o in item.ops):
        raise RecomputationError(f"what runs ahead of op {before.name!r} names ops that are themselves recomputed")
    if list(item.ops) != sorted(set(item.ops)):
        raise RecomputationError(f"the ops to run again ahead of op {before.name!r} are not in captured order")
    for op in item.ops:
        if op >= item.before or not repeatable(graph, graph.ops[op]):
            why = "has not run by then" if op >= item.before else "a second run would not give the same"
            raise RecomputationError(f"op {graph.ops[op].name!r} cannot run again ahead of op {before.name!r}: {why}")
    early = next((r for r in item.readers if r < item.before), None)
    if early is not None:
        raise RecomputationError(
            f"op {graph.ops[early].name!r} runs before what is recomputed ahead of {before.name!r}"
        )


def _copy(storage: Storage, number: int, mark: str) -> Storage:
    tensor_class: TensorClass = "activation" if storage.tensor_class == "output" else storage.tensor_class
    return replace(storage, id=number, name=storage.name + mark, tensor_class=tensor_class, recompute_of=storage.id)


def _numbered(sequence: Sequence[Op]) -> tuple[Op, ...]:
    """The ops with ids by place, and every dependency: those they had, those of their accesses now, and of a recomputed
    op the one on its original."""
    place = {op.id: n for n, op in enumerate(sequence) if op.recompute_of is None}
    needed = dependencies([(op.reads, op.writes) for op in sequence])
    result = []
    for number, op in enumerate(sequence):
        before = op.after if op.recompute_of is None else (op.recompute_of,)
        of = None if op.recompute_of is None else place[op.recompute_of]
        after = tuple(sorted({*needed[number], *(place[a] for a in before)}))
        result.append(replace(op, id=number, after=after, recompute_of=of))
    return tuple(result)


def ops_again(
    graph: Graph, versions: Versions, wanted: Collection[int], before: int, available: Callable[[int, int], bool]
) -> tuple[int, ...] | None:
    """``wanted`` and every op that must run again with them ahead of op ``before``, ascending; None if one cannot.

    ``available(storage, writer)`` says whether what ``writer`` left in the storage can be read there; where it was
    overwritten it is not asked.
    """
    chain: set[int] = set()
    open_ops = list(wanted)
    while open_ops:
        op = graph.ops[open_ops.pop()]
        if op.id in chain:
            continue
        if op.id >= before or not repeatable(graph, op):
            return None
        chain.add(op.id)
        for storage in op.reads:
            writer = versions.writer_before(storage, op.id)
            if versions.writer_before(storage, before) == writer and available(storage, writer):
                continue
            if writer == _START:
                return None
            open_ops.append(writer)
    return tuple(sorted(chain))


class _Lives(Versions):
    """Also how long each value is there: ``last_read`` by (storage, writer)."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._graph = graph
        self.last_read: dict[tuple[int, int], int] = {}
        for op in graph.ops:
            for storage in op.reads:
                self.last_read[storage, self.writer_before(storage, op.id)] = op.id

    def there(self, storage: int, writer: int, *, before: int) -> bool:
        """Whether the value is on the device ahead of op ``before`` when nothing is offloaded; inputs of the step are
        there as long as somebody reads them."""
        held = self._graph.exists_at_start(storage) or self._graph.lives_to_end(storage)
        return held or self.last_read[storage, writer] >= before


def recompute_candidates(graph: Graph, durations_ns: Sequence[int]) -> list[RecomputeCandidate]:
    """For each reuse gap of an activation or a gradient what it would cost to free it by recomputation.

    Ordered by storage and gap; gaps without an op inside, values that cannot be recomputed, and gaps of storages that
    are written again behind them are left out. Every candidate is for itself: it reads what captured order has on the
    device at that place, and if that is freed as well, it costs more (`recompute_together`). Takes O(accesses) besides
    the chains, which have some 32 ops at most.
    """
    lives = _Lives(graph)
    result = []
    for described in graph.storages:
        storage, accesses = described.id, graph.accesses[described.id]
        if described.tensor_class not in ("activation", "gradient") or described.persistent:
            continue
        for gap in range(len(accesses) - 1):
            left, right = accesses[gap].op, accesses[gap + 1].op
            if right - left < 2 or any(a.writes for a in accesses[gap + 1 :]):
                continue
            writer = lives.writer_before(storage, right)
            chain = _chain(graph, lives, [writer], right, partial(lives.there, before=right))
            if chain is not None:
                item = Recomputation(chain, right, tuple(a.op for a in accesses[gap + 1 :]))
                cost_ns = sum(durations_ns[op] for op in chain)
                extra = _extra_bytes(graph, lives, item, storage)
                result.append(RecomputeCandidate(storage, gap, described.bytes, item, cost_ns, extra))
    return result


def recompute_together(graph: Graph, candidates: Iterable[RecomputeCandidate]) -> list[Recomputation]:
    """Recomputations that free the gaps of all these candidates at once, but those that then have no way.

    What several need ahead of one op runs once there; an input that another candidate frees runs again too.
    """
    lives = _Lives(graph)
    freed: dict[int, list[tuple[int, int]]] = {}
    ahead: dict[int, list[RecomputeCandidate]] = {}
    for c in candidates:
        right = c.recomputation.before
        freed.setdefault(c.storage, []).append((graph.accesses[c.storage][c.gap].op, right))
        ahead.setdefault(right, []).append(c)
    result = []
    for before, here in sorted(ahead.items()):

        def available(storage: int, writer: int, before: int = before) -> bool:
            away = any(left < before <= right for left, right in freed.get(storage, ()))
            return not away and lives.there(storage, writer, before=before)

        ops: set[int] = set()
        readers: set[int] = set()
        for c in here:
            chain = _chain(graph, lives, [lives.writer_before(c.storage, before)], before, available)
            if chain is not None:
                ops.update(chain)
                readers.update(c.recomputation.readers)
        if ops:
            result.append(Recomputation(tuple(sorted(ops)), before, tuple(sorted(readers))))
    return result


def _chain(
    graph: Graph, versions: Versions, wanted: Collection[int], before: int, available: Callable[[int, int], bool]
) -> tuple[int, ...] | None:
    """`ops_again`, None as well where the chain would be too long."""
    missing = 0

    def found(storage: int, writer: int) -> bool:
        nonlocal missing
        there = available(storage, writer)
        missing += not there
        return there or missing > _LONGEST_CHAIN  # given up below

    chain = None if _START in wanted else ops_again(graph, versions, wanted, before, found)
    return None if missing > _LONGEST_CHAIN else chain


def _extra_bytes(graph: Graph, lives: _Lives, item: Recomputation, storage: int) -> int:
    """The most that results and workspaces of the ops take at once beyond the storage, and inputs kept for them."""
    chain = set(item.ops)
    last_use: dict[tuple[int, int], int] = {}
    kept: set[int] = set()
    for op in item.ops:
        for read in graph.ops[op].reads:
            writer = lives.writer_before(read, op)
            if writer in chain:
                last_use[read, writer] = op
            elif not graph.lives_to_end(read) and lives.last_read[read, writer] < item.before:
                kept.add(read)  # an input of the step, which is there as long as somebody reads it
    served = {(read, lives.writer_before(read, r)) for r in item.readers for read in graph.ops[r].reads}
    live, most = 0, 0
    ends: dict[int, int] = {}
    for op in item.ops:
        for written in graph.ops[op].writes:
            size = graph.storages[written].bytes
            live += size
            end = last_use.get((written, op), op)
            if (written, op) not in served:
                ends[end] = ends.get(end, 0) + size
        most = max(most, live + graph.ops[op].workspace_bytes)
        live -= ends.get(op, 0)
    return max(0, most - graph.storages[storage].bytes) + sum(graph.storages[s].bytes for s in kept)
