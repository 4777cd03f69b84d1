"""MindSpore kernels run one by one on arena memory.

Every call is prepared once: its primitive with attributes, its arguments as tensors that share the arena's memory at
the planned addresses, and where each result belongs. Kernels read their arguments in place, and in-place kernels
(AdamWeightDecay) write them there. MindSpore 2.10 has no way to give a kernel its output memory from Python
(`set_device_address` works on existing tensors only, `MemPool` is Ascend only), so a result that the kernel
allocated in MindSpore's own pool is copied to its address; the time is recorded per op (`OpEvents.copy_ns`).
`StridedSlice`, `BroadcastTo` and some others only return a strided view of their argument: their copy is the op's work.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor
from mindspore.graph.api import _pynative_executor
from mindspore.ops import Primitive
from numpy.typing import NDArray

from hyperoffload_core.capture.constants import mindspore_dtype
from hyperoffload_core.program import Call, Constant, TensorView
from hyperoffload_core.runtime.errors import ExecutionError
from hyperoffload_core.runtime.memory import numpy_dtype

Place = Callable[[TensorView], NDArray[np.generic]]
Share = Callable[[TensorView], Tensor]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where one result is copied: result number, address, size, and the array there."""

    result: int
    address: int
    size_bytes: int
    array: NDArray[np.generic]


def use_synchronous_kernels() -> None:
    """Have `real_run_op` return only when the kernel has finished.

    On CPU this is also the faster way: an asynchronous small op costs about 30 us with the hand-over and waiting for
    it, and its two queue threads spin (1.99 CPU-s per second on 2 cores, which starves the copy threads: the same op
    beside a sleeping thread took 3.9 ms); synchronous it costs 25 us at 1.07 CPU-s per second. The kernel runs with
    the GIL released either way.
    """
    ms.runtime.launch_blocking()


class Kernel:
    """One prepared call; ``run()`` executes it and returns the nanoseconds spent copying results into the arena."""

    __slots__ = ("_arguments", "_checked", "_destinations", "_name", "_outputs", "_primitive", "_strided", "op_name")

    def __init__(self, call: Call, op_name: str, place: Place, share: Share) -> None:
        self.op_name = op_name
        self._name = call.primitive
        self._primitive = Primitive(call.primitive)
        for name, value in call.attributes.items():
            self._primitive.add_prim_attr(name, value)
        self._arguments = [_argument(a, share) for a in call.arguments]
        self._outputs = call.outputs
        destinations = []
        for number, (view, in_place) in enumerate(zip(call.outputs, call.in_place, strict=True)):
            if view is not None and not in_place:
                array = place(view)
                destinations.append(Destination(number, array.ctypes.data, array.nbytes, array))
        self._destinations = tuple(destinations)
        self._strided: dict[tuple[int, int], NDArray[np.generic]] = {}
        self._checked = False

    def run(self) -> int:
        """Raises `ExecutionError` naming the op when the kernel fails or its results are not what was planned."""
        try:
            returned = _pynative_executor.real_run_op(self._primitive, self._name, self._arguments)
            _pynative_executor.sync()
        except Exception as error:
            reason = str(error).strip().split("\n", 1)[0]
            raise ExecutionError(f"op {self.op_name!r} ({self._name}) failed: {reason}") from error
        start_ns = perf_counter_ns()
        results = returned if isinstance(returned, (tuple, list)) else (returned,)
        if not self._checked:
            self._check(results)
        for destination in self._destinations:
            result = results[destination.result]
            if result.is_contiguous():
                ctypes.memmove(destination.address, result.data_ptr(), destination.size_bytes)
            else:
                np.copyto(destination.array, self._view_of(result, destination))
        return perf_counter_ns() - start_ns

    def _view_of(self, result: Tensor, destination: Destination) -> NDArray[np.generic]:
        """The strided result as an array over the memory it shares with its argument; kept while that stays put."""
        key = (destination.result, result.data_ptr())
        if key not in self._strided:
            strides = [s * destination.array.itemsize for s in result.stride()]
            extent = sum((n - 1) * s for n, s in zip(result.shape, strides, strict=True)) + destination.array.itemsize
            memory = (ctypes.c_uint8 * extent).from_address(key[1])
            flat = np.frombuffer(memory, np.uint8)
            self._strided = {
                **{k: v for k, v in self._strided.items() if k[0] != destination.result},
                key: np.ndarray(result.shape, destination.array.dtype, flat, strides=strides),
            }
        return self._strided[key]

    def _check(self, results: Any) -> None:
        for destination in self._destinations:
            view = self._outputs[destination.result]
            assert view is not None
            if destination.result >= len(results):
                raise ExecutionError(
                    f"op {self.op_name!r} ({self._name}) returned {len(results)} results,"
                    f" {len(self._outputs)} were planned"
                )
            result = results[destination.result]
            found = (tuple(result.shape), str(result.dtype).lower())
            if found != (view.shape, view.dtype):
                raise ExecutionError(
                    f"op {self.op_name!r} ({self._name}) returned {found[1]}{list(found[0])} as result"
                    f" {destination.result}, {view.dtype}{list(view.shape)} was planned"
                )
        self._checked = True


def _argument(argument: Any, share: Share) -> Any:
    if isinstance(argument, TensorView):
        return share(argument)
    if isinstance(argument, tuple):
        return tuple(_argument(a, share) for a in argument)
    if not isinstance(argument, Constant):
        raise TypeError(f"an argument is a TensorView, a Constant or a tuple of them, not {argument!r}")
    if isinstance(argument.value, np.ndarray):
        kind = numpy_dtype(argument.dtype) if argument.dtype else argument.value.dtype
        return Tensor.from_numpy(np.array(argument.value, kind, order="C"))
    if argument.value is None and argument.dtype:
        return mindspore_dtype(argument.dtype)
    return argument.value
