"""Whether an in-place op really writes its argument when it runs alone.

For a type its CPU kernel lacks (often float16 and bfloat16), MindSpore converts the arguments of a single op first: the
kernel then updates the converted copy, and the update is lost without a word. Each kind of update of a 16-bit storage
is therefore tried once on made-up values before a model is captured to be run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mindspore import Tensor
from mindspore.graph.api import _pynative_executor
from mindspore.ops import Primitive

from hyperoffload_core.capture.constants import mindspore_dtype
from hyperoffload_core.capture.errors import CaptureError
from hyperoffload_core.capture.raw import RawCall, RawGraph, tensors_in
from hyperoffload_core.program import Constant, TensorView

_HALF = ("float16", "bfloat16")


def refuse_lost_updates(raw: RawGraph) -> None:
    """Raise `CaptureError` naming the first op whose update of a 16-bit storage would be lost."""
    tried: set[tuple[Any, ...]] = set()
    for call in raw.calls:
        written = {s for s, in_place in zip(_targets(call), call.in_place, strict=False) if in_place}
        views = [v for a in call.arguments for v in tensors_in(a)]
        half = [v for v in views if v.storage in written and v.dtype in _HALF]
        kind = (call.primitive, tuple((v.shape, v.dtype) for v in views))
        if half and kind not in tried and not _changes(call, written):
            raise CaptureError(
                f"{call.domain}: {call.primitive} cannot update {raw.storages[half[0].storage].name!r} "
                f"({half[0].dtype}) in place on CPU, where MindSpore converts it to float32 first and the update is "
                "lost; use float32 for it"
            )
        tried.add(kind)


def _targets(call: RawCall) -> list[int]:
    return [o.storage for o in call.outputs]


def _changes(call: RawCall, written: set[int]) -> bool:
    before: list[tuple[Tensor, bytes]] = []

    def made_up(argument: Any) -> Any:
        if isinstance(argument, TensorView):
            updated = argument.storage in written
            kind = mindspore_dtype(argument.dtype)
            number = 1.0 if updated else 0.5  # 0 as an index
            tensor = Tensor(np.full(argument.shape, number, np.float32), kind)
            if updated:
                before.append((tensor, tensor.asnumpy().tobytes()))
            return tensor
        if isinstance(argument, tuple):
            return tuple(made_up(a) for a in argument)
        assert isinstance(argument, Constant)
        if argument.dtype and argument.value is None:
            return mindspore_dtype(argument.dtype)
        return Tensor(argument.value) if isinstance(argument.value, np.ndarray) else argument.value

    primitive = Primitive(call.primitive)
    for name, value in call.attributes.items():
        primitive.add_prim_attr(name, value)
    try:
        _pynative_executor.real_run_op(primitive, call.primitive, tuple(made_up(a) for a in call.arguments))
        _pynative_executor.sync()
    except Exception:  # no kernel at all: the run itself will say so better than this trial
        return True
    return any(tensor.asnumpy().tobytes() != data for tensor, data in before)
