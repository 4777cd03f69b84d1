"""Parameters that a schedule moves: their values in memory of ours, and everything's place in the pool."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mindspore import Parameter, Tensor
from numpy.typing import NDArray

from hyperoffload_core.ir import Graph
from hyperoffload_core.mindspore_plugin.fitting import PAGE_BYTES, AttachError
from hyperoffload_core.mindspore_plugin.kernels import Region, Session
from hyperoffload_core.schedule import Schedule

TENSOR_ALIGNMENT = 64


@dataclass(frozen=True)
class Owned:
    """A parameter and the region its values are in."""

    parameter: Parameter
    region: Region
    values: NDArray[Any]

    def adopt(self) -> None:
        """Take over whatever memory the parameter was given since (``set_data``, a loaded checkpoint)."""
        if self.parameter.data_ptr() != self.values.ctypes.data:
            given = self.parameter.asnumpy()
            if given.shape != self.values.shape:
                raise AttachError(
                    f"{self.parameter.name} was given the shape {given.shape}, and the schedule was made for "
                    f"{self.values.shape}; detach, and compile the schedule again"
                )
            self.values[...] = given
            self.parameter.set_data(Tensor.from_numpy(self.values))

    def give_back(self) -> None:
        """The parameter's values come back into memory MindSpore owns."""
        if self.parameter.data_ptr() == self.values.ctypes.data:
            self.parameter.set_data(Tensor(self.values.copy()))


def take_parameters(
    session: Session,
    schedule: Schedule,
    names: Mapping[int, str],
    moved: Collection[int],
    slots: Mapping[int, int],
    parameters: Mapping[str, Parameter],
    owned: list[Owned],
) -> dict[int, Owned]:
    """Each moved parameter (``names[storage]``) with its values in a region, at home where the schedule says.

    All are put into ``owned`` before their memory changes, so that whoever stops this halfway can give them back.
    """
    taken: dict[int, Owned] = {}
    for storage in sorted(set(moved) & names.keys()):
        parameter = parameters[names[storage]]
        value = parameter.asnumpy()
        region = session.region(value.nbytes, slots[storage])
        values = region.memory.view(value.dtype).reshape(value.shape)
        values[...] = value
        owned.append(Owned(parameter, region, values))
        parameter.set_data(Tensor.from_numpy(values))
        region.to_pool()
        if schedule.homes[storage] == "device":
            region.to_device()
        taken[storage] = owned[-1]
    return taken


def pool_slots(graph: Graph, storages: Sequence[int]) -> tuple[dict[int, int], int]:
    """Where each storage is in the pool, and the pool's size."""
    slots: dict[int, int] = {}
    end = 0
    for storage in storages:
        alignment = PAGE_BYTES if graph.storages[storage].persistent else TENSOR_ALIGNMENT
        slots[storage] = start = -(-end // alignment) * alignment
        end = start + -(-graph.storages[storage].bytes // alignment) * alignment
    return slots, end
