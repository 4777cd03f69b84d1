"""MindSpore kernels on arena memory: every kind of argument and result, at any byte address."""

from __future__ import annotations

import numpy as np
import pytest
from mindspore import Tensor
from mindspore.common.np_dtype import bfloat16

from hyperoffload_core.program import Call, Constant, TensorView
from hyperoffload_core.runtime.arena import Arena
from hyperoffload_core.runtime.errors import ExecutionError
from hyperoffload_core.runtime.kernels import Kernel, use_synchronous_kernels
from hyperoffload_core.runtime.memory import POISON

pytestmark = pytest.mark.mindspore

# Storage n of these tests starts at n times this.
SPACING = 4096
# MindIR gives Cast its type as MindSpore's number for it.
FLOAT16_ID = 42


def evaluate(primitive, arguments, outputs, values=None, in_place=None, shift=0, **attributes):
    """Run one call on an arena where storage n lies at n * SPACING + shift; returns the arrays of its outputs."""
    use_synchronous_kernels()
    arena = Arena(16 * SPACING)
    arena.poison(0, arena.size_bytes)

    def place(view: TensorView):
        return arena.view(view.storage * SPACING + shift + view.offset_bytes, view.shape, view.dtype)

    for view, value in (values or {}).items():
        np.copyto(place(view), value)
    in_place = in_place or (False,) * len(outputs)
    call = Call(0, primitive, attributes, tuple(arguments), tuple(outputs), in_place)
    kernel = Kernel(call, "the op", place, lambda view: Tensor.from_numpy(place(view)))
    for _ in range(2):
        kernel.run()
    return [place(view).copy() for view in outputs if view is not None]


X = TensorView(0, (4, 6), "float32")
VALUE = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int32", "int64"])
def test_kernels_compute_in_every_type(dtype):
    kind = bfloat16 if dtype == "bfloat16" else dtype
    a, b, c = (TensorView(n, (4, 6), dtype) for n in range(3))
    value = np.arange(24).reshape(4, 6).astype(kind)
    (result,) = evaluate("Add", [a, b], [c], {a: value, b: value})
    assert result.dtype == value.dtype
    assert np.array_equal(result.astype(np.float64), 2.0 * np.arange(24).reshape(4, 6))


@pytest.mark.parametrize("shift", [0, 1, 2, 4, 12, 64])
def test_kernels_work_at_any_byte_address(shift):
    y, z = TensorView(1, (6, 5), "float32"), TensorView(2, (4, 5), "float32")
    right = np.arange(30, dtype=np.float32).reshape(6, 5)
    no = Constant(False)
    (result,) = evaluate("MatMul", [X, y, no, no], [z], {X: VALUE, y: right}, shift=shift)
    assert np.array_equal(result, VALUE @ right)


def test_bool_results_and_array_constants():
    out = TensorView(1, (4, 6), "bool")
    (result,) = evaluate("Greater", [X, Constant(np.float32(7.5) * np.ones(6, np.float32))], [out], {X: VALUE})
    assert np.array_equal(result, VALUE > 7.5)


def test_number_constants_are_passed_as_they_are():
    out = TensorView(1, (4, 6), "float16")
    (result,) = evaluate("Cast", [X, Constant(FLOAT16_ID)], [out], {X: VALUE})
    assert np.array_equal(result, VALUE.astype(np.float16))


def test_a_tuple_of_tensors_is_one_argument():
    y, out = TensorView(1, (2, 6), "float32"), TensorView(2, (6, 6), "float32")
    (result,) = evaluate("Concat", [(X, y), Constant(0)], [out], {X: VALUE, y: VALUE[:2] * 10})
    assert np.array_equal(result, np.concatenate([VALUE, VALUE[:2] * 10]))


def test_results_nobody_reads_are_dropped():
    out = TensorView(1, (4, 3), "float32")
    (result,) = evaluate("Split", [X, Constant(1), Constant(2)], [None, out], {X: VALUE})
    assert np.array_equal(result, VALUE[:, 3:])


def test_strided_views_arrive_contiguous():
    out = TensorView(1, (3, 2), "float32")
    zero = Constant(0)
    arguments = [X, Constant((1, 1)), Constant((4, 5)), Constant((1, 2)), *[zero] * 5]
    (result,) = evaluate("StridedSlice", arguments, [out], {X: VALUE})
    assert np.array_equal(result, VALUE[1:4, 1:5:2])
    wide = TensorView(1, (3, 4, 6), "float32")
    (result,) = evaluate("BroadcastTo", [X, Constant((3, 4, 6))], [wide], {X: VALUE})
    assert np.array_equal(result, np.broadcast_to(VALUE, (3, 4, 6)))


def test_a_view_inside_a_storage_is_read_and_written_at_its_offset():
    row = TensorView(0, (6,), "float32", 2 * 6 * 4)
    out = TensorView(0, (6,), "float32", 3 * 6 * 4)
    (result,) = evaluate("Neg", [row], [out], {X: VALUE})
    assert np.array_equal(result, -VALUE[2])


def test_in_place_kernels_write_the_arena_and_have_finished_when_run_returns():
    size = 1 << 18
    arena = Arena(16 * size)
    views = [TensorView(n, (size,), "float32") for n in range(4)]

    def place(view: TensorView):
        return arena.view(view.storage * size * 4, view.shape, view.dtype)

    for view in views:
        place(view)[...] = 1
    rates = tuple(Constant(r) for r in (1e-2, 0.9, 0.999, 1e-8, 0.01))
    arguments = (*views[:3], *rates, views[3], Constant(False))
    call = Call(0, "AdamWeightDecay", {}, arguments, tuple(views[:3]), (True,) * 3)
    kernel = Kernel(call, "adam", place, lambda view: Tensor.from_numpy(place(view)))
    for _ in range(5):
        kernel.run()
        at_return = place(views[0]).copy()
        assert np.array_equal(at_return, place(views[0]))
        assert (at_return == at_return[0]).all()
    assert at_return[0] < 1


def test_poison_reads_as_not_a_number():
    arena = Arena(SPACING)
    arena.poison(0, SPACING)
    assert POISON == 0xFF
    for dtype in ("float16", "float32", "bfloat16"):
        assert np.isnan(arena.view(0, (8,), dtype).astype(np.float64)).all()


def test_an_address_outside_the_arena_is_refused():
    with pytest.raises(ExecutionError, match="bytes 4,000 to 4,400 lie outside the device arena of 4,096 bytes"):
        Arena(SPACING).view(4000, (100,), "float32")


def test_an_error_inside_a_running_kernel_names_the_op():
    index, out = TensorView(1, (1,), "int32"), TensorView(2, (1, 6), "float32")
    with pytest.raises(ExecutionError, match=r"op 'the op' \(Gather\) failed: .*100"):
        evaluate("Gather", [X, index, Constant(0), Constant(0)], [out], {X: VALUE, index: np.int32(100)})
