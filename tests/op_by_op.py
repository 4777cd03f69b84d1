"""Runs a captured program call by call with plain MindSpore tensors, for comparison with MindSpore's graph mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor
from mindspore.graph.api import _pynative_executor
from mindspore.ops import Primitive
from numpy.typing import NDArray

from hyperoffload_core.program import Call, CapturedModel, Constant, TensorView


class OpByOp:
    """Storages as byte arrays that keep persistent values from step to step."""

    def __init__(self, model: CapturedModel):
        self.model = model
        self.bytes: dict[int, NDArray[np.uint8]] = {n: _as_bytes(value).copy() for n, value in model.values.items()}
        self.primitives = [_primitive(call) for call in model.program.calls]

    def step(self, inputs: Sequence[Tensor]) -> list[NDArray[Any]]:
        for storage, tensor in zip(self.model.inputs, inputs, strict=True):
            self.bytes[storage] = _as_bytes(tensor.asnumpy()).copy()
        for op, call in zip(self.model.graph.ops, self.model.program.calls, strict=True):
            arguments = tuple(self._argument(a) for a in call.arguments)
            before = {s: self.bytes[s].copy() for s in op.reads if s not in op.writes}
            result = _pynative_executor.real_run_op(self.primitives[call.op], call.primitive, arguments)
            results = result if isinstance(result, tuple | list) else (result,)
            self._write(call, results)
            for storage, value in before.items():
                assert np.array_equal(value, self.bytes[storage]), f"{op.name} wrote to what it says it only reads"
        return [self.array(view) for view in self.model.program.results]

    def _argument(self, argument: Any) -> Any:
        if isinstance(argument, TensorView):
            return Tensor.from_numpy(self.array(argument))
        if isinstance(argument, tuple):
            return tuple(self._argument(a) for a in argument)
        assert isinstance(argument, Constant)
        if argument.dtype and argument.value is None:
            return getattr(ms, argument.dtype)
        return Tensor(argument.value) if isinstance(argument.value, np.ndarray) else argument.value

    def _write(self, call: Call, results: Sequence[Tensor]) -> None:
        results = [r.asnumpy() for r in results]  # waits for the kernel
        for view, in_place, value in zip(call.outputs, call.in_place, results, strict=True):
            if view is None:
                continue
            assert (value.shape, value.dtype.name) == (view.shape, view.dtype), (call.primitive, value.shape, view)
            if not in_place:  # CPU kernels leave the results of in-place ops undefined; the argument has the value
                self.bytes[view.storage] = _as_bytes(value).copy()

    def array(self, view: TensorView) -> NDArray[Any]:
        """A numpy view (no copy) of the storage's bytes."""
        from mindspore.common.np_dtype import bfloat16

        kind = np.dtype(bfloat16 if view.dtype == "bfloat16" else view.dtype)
        size = int(np.prod(view.shape)) * kind.itemsize
        return self.bytes[view.storage][view.offset_bytes : view.offset_bytes + size].view(kind).reshape(view.shape)

    def parameters(self) -> dict[str, NDArray[np.uint8]]:
        return {name: self.bytes[storage] for storage, name in self.model.parameters.items()}


def _primitive(call: Call) -> Primitive:
    primitive = Primitive(call.primitive)
    for name, value in call.attributes.items():
        primitive.add_prim_attr(name, value)
    return primitive


def _as_bytes(value: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)
