"""What to do when a memory limit cannot be met: the op that asks for more, its working set, and what would make it fit.

Moving, recomputing and ordering do not lower the smallest feasible limit: what an op reads and writes has to be on the
device at once. So what helps changes the op (split it), its sizes (a smaller batch), or the policy (keep less).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from hyperoffload_core.analysis.bounds import SmallestLimit, smallest_feasible_limit
from hyperoffload_core.ir import Graph, TensorClass, storages_of
from hyperoffload_core.sizes import format_bytes

BATCH_CLASSES: frozenset[TensorClass] = frozenset({"input", "activation"})
"""Classes whose storages are taken to scale with the batch."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Split:
    """The op done in ``factor`` pieces along dimension ``dimension`` (of ``extent``) of ``storage``.

    All storages of the working set with a dimension of that extent are taken to be split along it; the pieces have to
    be storages of their own. ``bytes`` is then the working set of a piece.
    """

    storage: int
    dimension: int
    extent: int
    factor: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SmallerBatch:
    """``fraction`` of the batch, at most, that would fit; ``storages`` are the storages of the op that scale with it,
    ``fixed_bytes`` what does not."""

    fraction: float
    fixed_bytes: int
    storages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KeepLess:
    """Without the policy's keep rules ``smallest_bytes`` is the smallest feasible limit."""

    smallest_bytes: int
    kept_bytes: int


@dataclass(frozen=True)
class Infeasible:
    """Why a limit cannot be met and what would make it fit.

    ``working_set`` holds (storage, bytes), the largest first; ``workspace_bytes`` come on top. ``op`` is None when it
    is the end of the step that needs so much. Of ``split``, ``batch`` and ``keep_less`` those are None that would not
    make this graph fit this limit.
    """

    limit_bytes: int
    smallest: SmallestLimit
    working_set: tuple[tuple[int, int], ...]
    workspace_bytes: int
    split: Split | None
    batch: SmallerBatch | None
    keep_less: KeepLess | None
    sentence: str
    advice: str

    @property
    def op(self) -> int | None:
        return self.smallest.op

    @property
    def missing_bytes(self) -> int:
        return self.smallest.bytes - self.limit_bytes


def explain_infeasible(
    graph: Graph,
    limit_bytes: int,
    kept: Collection[int] = (),
    smallest: SmallestLimit | None = None,
    fixed: Collection[int] = (),
) -> Infeasible:
    """For a limit below the smallest feasible one (``smallest``, worked out with ``kept`` when it is not given), or for
    one above it that no schedule was found for; then only keeping less is advice. ``fixed`` are those of ``kept`` that
    no rule keeps: they cannot move."""
    smallest = smallest or smallest_feasible_limit(graph, kept)
    sizes = sorted(((s, graph.storages[s].bytes) for s in smallest.working_set), key=lambda row: (-row[1], row[0]))
    fits = limit_bytes >= smallest.bytes
    split = None if fits else _split(graph, limit_bytes, smallest)
    batch = None if fits else _smaller_batch(graph, limit_bytes, kept)
    keep_less = _keep_less(graph, limit_bytes, set(kept) - set(fixed), fixed)
    return Infeasible(
        limit_bytes=limit_bytes,
        smallest=smallest,
        working_set=tuple(sizes),
        workspace_bytes=0 if smallest.op is None else graph.ops[smallest.op].workspace_bytes,
        split=split,
        batch=batch,
        keep_less=keep_less,
        sentence=_sentence(graph, limit_bytes, smallest, sizes),
        advice="" if fits and keep_less is None else _advice(graph, smallest, split, batch, keep_less),
    )


def _split(graph: Graph, limit_bytes: int, smallest: SmallestLimit) -> Split | None:
    """The fewest pieces, along any dimension of the op's largest storage, that make the op fit; the smallest piece of
    equally many."""
    if smallest.op is None:
        return None
    op = graph.ops[smallest.op]
    touched = set(storages_of(op))
    largest = max(touched, key=lambda s: (graph.storages[s].bytes, -s))
    shape = graph.storages[largest].shape
    found: list[Split] = []
    for dimension, extent in enumerate(shape):
        together = [s for s in touched if extent in graph.storages[s].shape]
        parts = sum(graph.storages[s].bytes for s in together)
        fixed = smallest.bytes - parts
        for factor in range(2, extent + 1):
            if extent % factor == 0 and fixed + -(-parts // factor) <= limit_bytes:
                found.append(Split(largest, dimension, extent, factor, fixed + -(-parts // factor)))
                break
    return min(found, key=lambda s: (s.factor, s.bytes, s.dimension), default=None)


def _smaller_batch(graph: Graph, limit_bytes: int, kept: Collection[int]) -> SmallerBatch | None:
    """The largest fraction of the batch with which every op fits; None where what does not scale is too much alone."""
    tightest: SmallerBatch | None = None
    for storages, workspace in _working_sets(graph, kept):
        scaling = tuple(s for s in storages if graph.storages[s].tensor_class in BATCH_CLASSES)
        grows = sum(graph.storages[s].bytes for s in scaling)
        fixed = workspace + sum(graph.storages[s].bytes for s in storages) - grows
        if fixed + grows <= limit_bytes:
            continue
        if fixed >= limit_bytes or not grows:
            return None
        fraction = (limit_bytes - fixed) / grows
        if tightest is None or fraction < tightest.fraction:
            tightest = SmallerBatch(fraction, fixed, scaling)
    return tightest


def _working_sets(graph: Graph, kept: Collection[int]) -> Iterator[tuple[set[int], int]]:
    """(storages, workspace bytes) that have to be on the device at once: of each op, and at the end of the step.

    As in `smallest_feasible_limit`, a kept storage that is not persistent counts over its life in captured order.
    """
    pinned = {s for s in kept if graph.exists_at_start(s) and graph.lives_to_end(s)}
    lives = [
        (0 if graph.exists_at_start(s) else ops[0], len(graph.ops) if graph.lives_to_end(s) else ops[-1], s)
        for s in set(kept) - pinned
        if (ops := [a.op for a in graph.accesses[s]])
    ]
    for op in graph.ops:
        alive = {s for first, last, s in lives if first <= op.id <= last}
        yield {*storages_of(op), *pinned, *alive}, op.workspace_bytes
    yield {s.id for s in graph.storages if s.tensor_class == "output"} | pinned, 0


def _keep_less(graph: Graph, limit_bytes: int, kept: Collection[int], fixed: Collection[int]) -> KeepLess | None:
    if not kept:
        return None
    without = smallest_feasible_limit(graph, fixed).bytes
    return KeepLess(without, sum(graph.storages[s].bytes for s in kept)) if without <= limit_bytes else None


def _sentence(graph: Graph, limit_bytes: int, smallest: SmallestLimit, sizes: list[tuple[int, int]]) -> str:
    if smallest.op is None:
        reason = "its outputs and kept storages alone need that much at the end of the step"
    else:
        largest = ", ".join(f"{graph.storages[s].name!r} with {format_bytes(size)}" for s, size in sizes[:_NAMED])
        more = f" and {len(sizes) - _NAMED} more" if len(sizes) > _NAMED else ""
        reason = (
            f"op {graph.ops[smallest.op].name!r} needs that much at once for what it reads and writes "
            f"(the largest: {largest}{more})"
        )
    return (
        f"the memory limit {format_bytes(limit_bytes)} cannot be met; the smallest feasible limit is "
        f"{format_bytes(smallest.bytes)} ({smallest.bytes} bytes), because {reason}"
    )


def _advice(
    graph: Graph, smallest: SmallestLimit, split: Split | None, batch: SmallerBatch | None, keep_less: KeepLess | None
) -> str:
    """What would make it fit, in one sentence."""
    ways = []
    if keep_less is not None:
        ways.append(
            f"keep less: without the keep rules ({format_bytes(keep_less.kept_bytes)}) the smallest feasible limit is "
            f"{format_bytes(keep_less.smallest_bytes)}"
        )
    if batch is not None:
        ways.append(
            f"{batch.fraction:.0%} of the batch at most (inputs and activations scale with it, "
            f"{format_bytes(batch.fixed_bytes)} do not)"
        )
    if split is not None:
        assert smallest.op is not None
        storage = graph.storages[split.storage]
        shape = " x ".join(map(str, storage.shape))
        ways.append(
            f"split op {graph.ops[smallest.op].name!r} into {split.factor} along dimension {split.dimension} of "
            f"{storage.name!r} ({shape}), which needs {format_bytes(split.bytes)} at once"
        )
    if not ways:
        return (
            f"nothing smaller fits: raise the limit to {format_bytes(smallest.bytes)}; neither a smaller batch nor one "
            "split of the op is enough"
        )
    return f"what would fit: {'; or '.join(ways)}"
