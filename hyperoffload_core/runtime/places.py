"""Where every storage lies: at the addresses of its stays in the arena, and in its slot of the pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.program import TensorView
from hyperoffload_core.runtime.arena import Arena
from hyperoffload_core.runtime.errors import ExecutionError
from hyperoffload_core.runtime.memory import Bytes, numpy_dtype
from hyperoffload_core.runtime.pool import Pool
from hyperoffload_core.runtime.stays import Stays
from hyperoffload_core.schedule import Schedule

Array = NDArray[Any]


@dataclass(frozen=True)
class Places:
    """``plan`` are the stays of ``schedule``, ``arena`` and ``pool`` the memory they lie in."""

    schedule: Schedule
    plan: Stays
    arena: Arena
    pool: Pool

    def stay(self, index: int) -> Bytes:
        """The bytes of one stay, by its index in the plan."""
        stay = self.plan.stays[index]
        return self.arena.region(stay.residency.offset, stay.bytes)

    def home(self, storage: int) -> Bytes:
        """Where the storage is between two steps. Raises `ExecutionError` for one that never is on the device."""
        described = self.schedule.graph.storages[storage]
        if described.persistent and self.schedule.homes[storage] == "pool":
            return self.pool.slots[storage]
        if storage not in self.plan.last_of:
            raise ExecutionError(f"storage {described.name!r} never is on the device")
        return self.stay(self.plan.last_of[storage])

    def put(self, storage: int, value: Array) -> None:
        """The value into the storage's home. Raises `ExecutionError` for one of another size."""
        home, raw = self.home(storage), _raw(value)
        if raw.nbytes != home.nbytes:
            name = self.schedule.graph.storages[storage].name
            raise ExecutionError(f"storage {name!r} holds {home.nbytes:,} bytes, its value has {raw.nbytes:,}")
        np.copyto(home, raw)

    def put_inputs(self, storages: Sequence[int], values: Sequence[Array]) -> None:
        """A step's inputs to where it starts with them. Raises `ExecutionError` for other shapes than captured."""
        if len(values) != len(storages):
            raise ExecutionError(f"the model takes {len(storages)} inputs, {len(values)} were given")
        for number, (storage, value) in enumerate(zip(storages, values, strict=True)):
            described = self.schedule.graph.storages[storage]
            if described.dtype and (value.shape, value.dtype) != (described.shape, numpy_dtype(described.dtype)):
                raise ExecutionError(
                    f"input {number} is {value.dtype}{list(value.shape)};"
                    f" the model was captured with {described.dtype}{list(described.shape)}"
                )
            if storage not in self.plan.first_of:
                continue
            first = self.plan.first_of[storage]
            fetched = self.plan.stays[first].begins_with == "transfer"
            np.copyto(self.pool.slots[storage] if fetched else self.stay(first), _raw(value))

    def result(self, view: TensorView) -> Array:
        """A copy of a result of the graph, once the step has ended."""
        kind = numpy_dtype(view.dtype)
        size = int(np.prod(view.shape, dtype=np.int64)) * kind.itemsize
        raw = self.home(view.storage)[view.offset_bytes : view.offset_bytes + size]
        return raw.copy().view(kind).reshape(view.shape)


def _raw(value: Array) -> Bytes:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
