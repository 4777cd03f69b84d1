"""MindSpore's strided views (``NarrowView``, ``TransposeExtView``, …) as something that can be executed op by op.

A view that is contiguous in its base stays a view (same storage, an offset): writing through it writes the base. Any
other becomes the copying primitive that gives the same values; `real_run_op` has no kernels for the views themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperoffload_core.capture.errors import CaptureError


@dataclass(frozen=True)
class Region:
    """One result of a view: of each dimension the indices ``start, start + step, …`` below ``stop``."""

    start: tuple[int, ...]
    stop: tuple[int, ...]
    step: tuple[int, ...]

    @property
    def elements(self) -> tuple[slice, ...]:
        return tuple(slice(*bounds) for bounds in zip(self.start, self.stop, self.step, strict=True))


@dataclass(frozen=True)
class Permutation:
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Broadcast:
    shape: tuple[int, ...]


def is_view(name: str) -> bool:
    """Whether the primitive's result shares its argument's bytes in MindSpore, contiguous or not."""
    return name.endswith("View") and name not in ("View", "ReshapeView", "ExpandDimsView")


def results_of(
    name: str, shape: tuple[int, ...], options: Sequence[Any], where: str
) -> list[Region] | Permutation | Broadcast:
    """What a view primitive shows of an argument of that shape; ``options`` are its other arguments in order.

    Raises `CaptureError` for a view that is neither a region, a permutation nor a broadcast.
    """
    rank = len(shape)

    def along(dim: int, ranges: Sequence[tuple[int, int, int]]) -> list[Region]:
        axis = dim % rank
        full = [(0, size, 1) for size in shape]
        regions = []
        for bounds in ranges:
            start, stop, step = zip(*[*full[:axis], bounds, *full[axis + 1 :]], strict=True)
            regions.append(Region(start, stop, step))
        return regions

    def parts(dim: int, sizes: Sequence[int]) -> list[Region]:
        ends = np.cumsum(sizes).tolist()
        return along(dim, [(end - size, end, 1) for size, end in zip(sizes, ends, strict=True)])

    def even(dim: int, size: int) -> list[Region]:
        total = shape[dim % rank]
        return parts(dim, [min(size, total - at) for at in range(0, total, size)])

    match name, list(options):
        case "TransposeView", [axes]:
            return Permutation(tuple(a % rank for a in axes))
        case "TransposeExtView", [first, second]:
            axes = list(range(rank))
            axes[first], axes[second] = axes[second], axes[first]
            return Permutation(tuple(axes))
        case "BroadcastToView", [target]:
            kept = (1,) * (len(target) - rank) + shape
            return Broadcast(tuple(k if t == -1 else t for t, k in zip(target, kept, strict=True)))
        case "NarrowView", [dim, start, length]:
            start %= shape[dim % rank] or 1
            return along(dim, [(start, start + length, 1)])
        case "SliceExtView", [dim, start, end, step]:
            return along(dim, [slice(start, end, step).indices(shape[dim % rank])])
        case "SelectExtView", [dim, index]:
            index %= shape[dim % rank]
            return along(dim, [(index, index + 1, 1)])
        case "SplitTensorView", [size, dim]:
            return even(dim, size)
        case "SplitWithSizeView", [sizes, dim]:
            return parts(dim, sizes)
        case "ChunkView", [count, dim]:
            return even(dim, -(-shape[dim % rank] // count))
        case "UnstackExtView", [dim]:
            return along(dim, [(n, n + 1, 1) for n in range(shape[dim % rank])])
    raise CaptureError(f"{where}: the view {name} cannot be captured")


def contiguous_offset(region: Region, shape: tuple[int, ...]) -> int | None:
    """Elements before the region in a tensor of that shape if the region is contiguous in it, else None."""
    strides = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    # No element is read: only the layout of the indexed view is of interest.
    layout = np.lib.stride_tricks.as_strided(np.empty(1, np.uint8), shape, strides)[region.elements]
    if not layout.flags.c_contiguous:
        return None
    return sum(start * stride for start, stride in zip(region.start, strides, strict=True))
