"""The device arena: one block of exactly the planned size, the only home of every storage on the device.

Nothing is allocated in it at run time. A storage is where the schedule says, for as long as it says, so two stays that
wrongly share addresses overwrite each other's numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.runtime.errors import ExecutionError
from hyperoffload_core.runtime.memory import POISON, Bytes, allocate, numpy_dtype


class Arena:
    """``size_bytes`` of private memory, page-aligned and touched.

    MindSpore's CPU kernels read and write a tensor at any byte address (tried at offsets 1 to 48); stays aligned to 64
    bytes keep vector loads inside a cache line, so addresses should be multiples of 64.
    """

    def __init__(self, size_bytes: int) -> None:
        self.bytes: Bytes = allocate(size_bytes, "device arena", shared=False)
        self.size_bytes = size_bytes

    def region(self, offset: int, size_bytes: int) -> Bytes:
        """The bytes at ``offset``. Raises `ExecutionError` when they are not all inside the arena."""
        if offset < 0 or offset + size_bytes > self.size_bytes:
            raise ExecutionError(
                f"bytes {offset:,} to {offset + size_bytes:,} lie outside the device arena of {self.size_bytes:,} bytes"
            )
        return self.bytes[offset : offset + size_bytes]

    def view(self, offset: int, shape: tuple[int, ...], dtype: str) -> NDArray[np.generic]:
        """A contiguous array over the arena; ``dtype`` is MindSpore's lower-case name."""
        kind = numpy_dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        return self.region(offset, size).view(kind).reshape(shape)

    def poison(self, offset: int, size_bytes: int) -> None:
        self.region(offset, size_bytes).fill(POISON)
