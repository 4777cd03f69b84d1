"""The remote pool: shared memory with one slot for each storage that ever lives outside the device.

Anonymous shared memory has no name, so no segment is left behind by a crash, and it is not bounded by the size of
/dev/shm (64 MB in many containers), only by free memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hyperoffload_core.ir import Graph
from hyperoffload_core.runtime.memory import POISON, Bytes, allocate
from hyperoffload_core.schedule import Schedule

SLOT_ALIGNMENT = 64


def pooled_storages(schedule: Schedule) -> tuple[int, ...]:
    """Storages that a transfer moves or whose home is the pool, ascending."""
    moved = {t.storage for t in schedule.transfers}
    at_home = {s.id for s in schedule.graph.storages if s.persistent and schedule.homes[s.id] == "pool"}
    return tuple(sorted(moved | at_home))


class Pool:
    """One slot per storage, page-touched. Raises `ExecutionError` when memory is short."""

    def __init__(self, graph: Graph, storages: Iterable[int]) -> None:
        offsets: dict[int, int] = {}
        size = 0
        for storage in storages:
            offsets[storage] = size
            size += -(-graph.storages[storage].bytes // SLOT_ALIGNMENT) * SLOT_ALIGNMENT
        self.size_bytes = size
        memory = allocate(size, "remote pool", shared=True)
        self.slots: Mapping[int, Bytes] = {
            storage: memory[offset : offset + graph.storages[storage].bytes] for storage, offset in offsets.items()
        }

    def poison(self, storage: int) -> None:
        self.slots[storage].fill(POISON)
