"""Blocks of host memory that stand for a tier: allocated once, touched up front, addressed by byte offset."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import Any

import numpy as np
from mindspore.common.np_dtype import bfloat16
from numpy.typing import NDArray

from hyperoffload_core.runtime.errors import ExecutionError

Bytes = NDArray[np.uint8]

# What a poisoned byte holds: as float32, float16 and bfloat16 it reads NaN, as an integer -1, as an index out of range.
POISON = 0xFF


def numpy_dtype(name: str) -> np.dtype[Any]:
    """numpy's type for MindSpore's lower-case name; bfloat16 is the one MindSpore registers."""
    return np.dtype(bfloat16 if name == "bfloat16" else name)


def available_bytes() -> int:
    """Memory the kernel would still give without swapping (``MemAvailable`` of /proc/meminfo)."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise ExecutionError("/proc/meminfo has no MemAvailable line, so free memory is unknown")


def allocate(size_bytes: int, what: str, *, shared: bool) -> Bytes:
    """A page-aligned block with every page touched. It goes back when the last array over it does, also after a crash.

    Raises `ExecutionError` when the memory is not there (the kernel would kill the process at the first touch).
    """
    free = available_bytes()
    if size_bytes > free:
        raise ExecutionError(f"the {what} needs {size_bytes:,} bytes of memory and {free:,} are free")
    kind = mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE
    block = mmap.mmap(-1, max(size_bytes, 1), flags=kind | mmap.MAP_ANONYMOUS)
    if not shared:
        block.madvise(mmap.MADV_HUGEPAGE)
    array = np.frombuffer(block, np.uint8, max(size_bytes, 1))
    array[:: mmap.PAGESIZE] = 0
    return array
