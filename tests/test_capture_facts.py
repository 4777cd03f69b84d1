"""What capture knows about primitives and views, without compiling anything."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.capture.errors import CaptureError
from hyperoffload_core.capture.primitives import flops, written_arguments
from hyperoffload_core.capture.views import Broadcast, Permutation, contiguous_offset, results_of


@pytest.mark.mindspore
@pytest.mark.parametrize(
    ("primitive", "written"),
    [
        ("AdamWeightDecay", (0, 1, 2)),
        ("Adam", (0, 1, 2)),
        ("ApplyMomentum", (0, 1)),
        ("SGD", (0, 3, 5)),
        ("Assign", (0,)),
        ("AssignAdd", (0,)),
        ("ScatterUpdate", (0,)),
        ("InplaceAddExt", (0,)),
        ("InplaceCopy", (0,)),
        ("BatchNorm", (3, 4)),
        ("MatMul", ()),
        ("Softmax", ()),
        ("NoSuchPrimitive", ()),
    ],
)
def test_written_arguments_come_from_mindspore(primitive: str, written: tuple[int, ...]) -> None:
    assert written_arguments(primitive) == written


def test_flops_of_products() -> None:
    assert flops("MatMul", [(3, 4), (4, 5)], [False, False], [(3, 5)]) == 2 * 3 * 4 * 5
    assert flops("MatMul", [(4, 3), (5, 4)], [True, True], [(3, 5)]) == 2 * 3 * 4 * 5
    assert flops("BatchMatMul", [(2, 3, 4), (2, 4, 5)], [False, False], [(2, 3, 5)]) == 2 * 2 * 3 * 4 * 5
    assert flops("Conv2D", [(1, 3, 8, 8), (6, 3, 3, 3)], [], [(1, 6, 8, 8)]) == 2 * (6 * 8 * 8) * (3 * 3 * 3)
    assert flops("Add", [(3, 4), (4,)], [], [(3, 4)]) == 12
    assert flops("ReduceMean", [(3, 4)], [], [()]) == 12


SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(tuple)


@settings(max_examples=200, deadline=None)
@given(SHAPES, st.data())
def test_regions_show_what_numpy_shows(shape: tuple[int, ...], data: st.DataObject) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape)
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = shape[dim]
    kind = data.draw(st.sampled_from(["NarrowView", "SliceExtView", "SelectExtView", "SplitTensorView", "ChunkView"]))
    options: list[Any]
    if kind == "NarrowView":
        start = data.draw(st.integers(0, size - 1))
        length = data.draw(st.integers(1, size - start))
        options, expected = [dim, start, length], [array.take(range(start, start + length), dim)]
    elif kind == "SliceExtView":
        start, step = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, 3))
        end = data.draw(st.integers(start + 1, size))
        options, expected = [dim, start, end, step], [array.take(range(start, end, step), dim)]
    elif kind == "SelectExtView":
        index = data.draw(st.integers(-size, size - 1))
        options, expected = [dim, index], [array.take([index], dim)]
    elif kind == "SplitTensorView":
        part = data.draw(st.integers(1, size))
        options, expected = [part, dim], np.split(array, range(part, size, part), dim)
    else:
        count = data.draw(st.integers(1, size))
        part = -(-size // count)
        options, expected = [count, dim], np.split(array, range(part, size, part), dim)
    regions = results_of(kind, shape, options, "here")
    assert isinstance(regions, list)
    assert len(regions) == len(expected)
    for region, wanted in zip(regions, expected, strict=True):
        assert np.array_equal(array[region.elements], wanted)
        offset = contiguous_offset(region, shape)
        if offset is not None:
            assert np.array_equal(array.ravel()[offset : offset + wanted.size], wanted.ravel())


def test_only_contiguous_regions_stay_views() -> None:
    (rows,) = results_of("NarrowView", (4, 6), [0, 1, 2], "here")
    (columns,) = results_of("NarrowView", (4, 6), [1, 1, 2], "here")
    assert contiguous_offset(rows, (4, 6)) == 6
    assert contiguous_offset(columns, (4, 6)) is None


def test_transposes_and_broadcasts() -> None:
    assert results_of("TransposeExtView", (2, 3, 4), [0, -1], "here") == Permutation((2, 1, 0))
    assert results_of("TransposeView", (2, 3), [(1, 0)], "here") == Permutation((1, 0))
    assert results_of("BroadcastToView", (3, 1), [(2, -1, 4)], "here") == Broadcast((2, 3, 4))


def test_an_unknown_view_is_refused() -> None:
    with pytest.raises(CaptureError, match="here: the view DiagonalView cannot be captured"):
        results_of("DiagonalView", (3, 3), [0, 0, 1], "here")
