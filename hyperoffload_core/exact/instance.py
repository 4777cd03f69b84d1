"""A planning problem as bit masks: what the exact search looks up at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import Action

_FEW = 32


@dataclass(frozen=True)
class Instance:
    """Masks have bit i for op i or storage i. Lists are indexed by op id or storage id, times in ns.

    ``movable``: storages that may leave the device; ``persistent``, ``given`` (exist when the step starts), ``lasting``
    (live to its end); ``out_ns`` and ``in_ns`` are the times of a Store and a Prefetch of each storage.
    """

    graph: Graph
    limit_bytes: int
    half_duplex: bool
    durations_ns: tuple[int, ...]
    workspace_bytes: tuple[int, ...]
    before: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    size_bytes: tuple[int, ...]
    out_ns: tuple[int, ...]
    in_ns: tuple[int, ...]
    movable: int
    offloaded: int
    persistent: int
    given: int
    lasting: int

    @cached_property
    def used(self) -> int:
        """Storages that some op touches."""
        result = 0
        for touched in self.touched:
            result |= touched
        return result

    @cached_property
    def touched(self) -> tuple[int, ...]:
        return tuple(r | w for r, w in zip(self.reads, self.writes, strict=True))

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """Ops that must run after each op, itself included."""
        count = len(self.before)
        result = [1 << op for op in range(count)]
        for op in reversed(range(count)):
            for earlier in bits(self.before[op]):
                result[earlier] |= result[op]
        return tuple(result)

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """Ops that must run before each op, itself included."""
        result: list[int] = []
        for op, before in enumerate(self.before):
            mask = 1 << op
            for earlier in bits(before):
                mask |= result[earlier]
            result.append(mask)
        return tuple(result)

    def bytes_of(self, storages: int) -> int:
        return sum(self.size_bytes[s] for s in bits(storages))

    def ns_of(self, ops: int) -> int:
        return sum(self.durations_ns[op] for op in bits(ops))


def bits(mask: int) -> tuple[int, ...]:
    """Indices of the set bits, ascending."""
    return _few_bits(mask) if mask >> _FEW == 0 else _bits(mask)


def _bits(mask: int) -> tuple[int, ...]:
    result = []
    while mask:
        low = mask & -mask
        result.append(low.bit_length() - 1)
        mask ^= low
    return tuple(result)


_few_bits = lru_cache(maxsize=1 << 15)(_bits)
"""The searches ask for the same masks of storages, ops and blocks again and again."""


def make_instance(
    graph: Graph, durations_ns: Sequence[int], hardware: Hardware, limit_bytes: int, actions: Sequence[Action]
) -> Instance:
    def mask(chosen: Sequence[int]) -> int:
        return sum(1 << index for index in dict.fromkeys(chosen))

    storages = [s.id for s in graph.storages]
    return Instance(
        graph=graph,
        limit_bytes=limit_bytes,
        half_duplex=hardware.duplex == "half",
        durations_ns=tuple(durations_ns),
        workspace_bytes=tuple(op.workspace_bytes for op in graph.ops),
        before=tuple(mask(op.after) for op in graph.ops),
        reads=tuple(mask(op.reads) for op in graph.ops),
        writes=tuple(mask(op.writes) for op in graph.ops),
        size_bytes=tuple(s.bytes for s in graph.storages),
        out_ns=tuple(transfer_ns(s.bytes, hardware.link_out) for s in graph.storages),
        in_ns=tuple(transfer_ns(s.bytes, hardware.link_in) for s in graph.storages),
        movable=mask([s for s in storages if actions[s] != "keep"]),
        offloaded=mask([s for s in storages if actions[s] == "offload"]),
        persistent=mask([s for s in storages if graph.storages[s].persistent]),
        given=mask([s for s in storages if graph.exists_at_start(s)]),
        lasting=mask([s for s in storages if graph.lives_to_end(s)]),
    )
