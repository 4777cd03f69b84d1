"""The cache operators' kernels from Python: sessions, their commands, regions and recorded events.

The library is C++ (``src/``, built by `toolchain`); ``src/interface.h`` is its C interface and says what each call
means. MindSpore calls kernels in the same file, so both see the same sessions.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import Link

CommandKind = Literal["store", "prefetch", "detach"]
# What an event's `kind` means, by number. "done": the graph waited for the command of that index.
EVENT_KINDS = ("", "store", "prefetch", "detach", "release", "mark", "begin", "end", "done")
_KIND = {name: number for number, name in enumerate(EVENT_KINDS)}

# One recorded event; times are `time.perf_counter_ns`.
EVENT = np.dtype(
    [(name, np.int64) for name in ("step", "index", "kind", "issued_ns", "start_ns", "end_ns", "waited_ns")]
)
_EVENTS_AT_A_TIME = 16_384


class KernelError(UserError):
    """What the kernels could not do: no room for a pool, a command that does not fit, a copy that failed."""


class _Stats(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "pool_bytes",
            "bytes_out",
            "bytes_in",
            "device_region_bytes",
            "peak_region_bytes",
            "steps",
            "events_lost",
        )
    ]


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of a session: bytes moved over the links, bytes of regions on the device now and at most, steps begun,
    events overwritten before they were taken."""

    pool_bytes: int
    bytes_out: int
    bytes_in: int
    device_region_bytes: int
    peak_region_bytes: int
    steps: int
    events_lost: int


_int, _i64, _ptr, _text = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ho_error": (_text, []),
    "ho_open": (_i64, [_text, _i64, _i64, _i64, _i64, _i64, _int, _int, _i64, ctypes.c_uint64]),
    "ho_close": (_int, [_i64]),
    "ho_abandon": (_int, [_i64]),
    "ho_failure": (_text, [_i64]),
    "ho_tensor_command": (_int, [_i64, _i64, _i64, _i64, _i64]),
    "ho_region_command": (_int, [_i64, _i64, _i64, _i64]),
    "ho_command_after": (_int, [_i64, _i64, _i64]),
    "ho_region": (_i64, [_i64, _i64, _i64]),
    "ho_region_address": (_ptr, [_i64]),
    "ho_region_to_pool": (_int, [_i64]),
    "ho_region_to_device": (_int, [_i64]),
    "ho_region_free": (_int, [_i64]),
    "ho_events": (_i64, [_i64, _ptr, _i64]),
    "ho_get_stats": (_int, [_i64, ctypes.POINTER(_Stats)]),
}


@dataclass(frozen=True)
class Kernels:
    """The loaded library. Make it with `load_kernels`."""

    path: Path
    library: ctypes.CDLL

    def call(self, function: str, *arguments: Any) -> int:
        """The result of a C function, or `KernelError` with its sentence where it failed (-1)."""
        result = int(getattr(self.library, function)(*arguments))
        if result == -1:
            raise KernelError(self.last_error())
        return result

    def last_error(self) -> str:
        """The sentence of the last failure in this process, also of a kernel that MindSpore called; "" if none."""
        return bytes(self.library.ho_error()).decode(errors="replace")


def load_kernels(path: Path) -> Kernels:
    """The library at ``path``. Raises `KernelError` where it cannot be loaded."""
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise KernelError(f"the kernels {path} cannot be loaded: {error}") from error
    return Kernels(path, library)


@dataclass(frozen=True)
class Region:
    """Memory for one parameter that keeps its address while its contents are on the device or in the pool.

    `memory` (uint8) always shows the newest contents. It stays as long as this, an array or tensor over it, or an open
    session with a command for it.
    """

    kernels: Kernels
    handle: int
    memory: NDArray[np.uint8]

    def to_pool(self) -> None:
        """Between steps: the contents go to the pool, which the memory shows from then on."""
        self.kernels.call("ho_region_to_pool", self.handle)

    def to_device(self) -> None:
        """Between steps: the contents come back into memory of this process."""
        self.kernels.call("ho_region_to_device", self.handle)


@dataclass(frozen=True)
class Session:
    """One attached graph: a pool, copy threads, commands. Make it with `open_session`, end it with `close`."""

    kernels: Kernels
    handle: int

    def kernel_id(self, index: int) -> int:
        """What a cache operator in the graph is given to mean the command (or release, or mark) ``index``."""
        return self.handle << 32 | index

    def tensor_command(self, index: int, kind: CommandKind, size_bytes: int, pool_offset: int) -> None:
        """Declares, between steps, a Store or Prefetch of a tensor of ``size_bytes``."""
        self.kernels.call("ho_tensor_command", self.handle, index, _KIND[kind], size_bytes, pool_offset)

    def region_command(self, index: int, kind: CommandKind, region: Region) -> None:
        """Declares, between steps, a Store, Prefetch or Detach of a region (of this or another session)."""
        self.kernels.call("ho_region_command", self.handle, index, _KIND[kind], region.handle)

    def command_after(self, index: int, others: Iterable[int]) -> None:
        """The copy of ``index`` starts only when the others have ended in the same step."""
        for other in others:
            self.kernels.call("ho_command_after", self.handle, index, other)

    def region(self, size_bytes: int, pool_offset: int) -> Region:
        """New memory on the device, zero, with its slot in this session's pool: from ``pool_offset`` (a multiple of the
        page size) on, whole pages."""
        handle = self.kernels.call("ho_region", self.handle, size_bytes, pool_offset)
        block = (ctypes.c_uint8 * size_bytes).from_address(self.kernels.library.ho_region_address(handle))
        # Not when the interpreter ends: MindSpore may still hold the tensor.
        weakref.finalize(block, self.kernels.library.ho_region_free, handle).atexit = False
        return Region(self.kernels, handle, np.frombuffer(memoryview(block).cast("B"), np.uint8))

    def take_events(self) -> NDArray[np.void]:
        """What was recorded since the last call, oldest first (`EVENT`); transfers when their step has ended."""
        taken: list[NDArray[np.void]] = []
        while not taken or len(taken[-1]) == _EVENTS_AT_A_TIME:
            events = np.empty(_EVENTS_AT_A_TIME, EVENT)
            count = self.kernels.call("ho_events", self.handle, events.ctypes.data, len(events))
            taken.append(events[:count].copy() if count < len(events) else events)
        return np.concatenate(taken)

    def stats(self) -> Stats:
        stats = _Stats()
        self.kernels.call("ho_get_stats", self.handle, ctypes.byref(stats))
        return Stats(**{name: getattr(stats, name) for name, *_ in _Stats._fields_})

    def abandon(self) -> str:
        """Ends a step that MindSpore left in the middle; nothing is being copied afterwards. Returns the sentence of
        the kernel or copy that failed in it, "" where none did."""
        failure = bytes(self.kernels.library.ho_failure(self.handle)).decode(errors="replace")
        self.kernels.call("ho_abandon", self.handle)
        return failure

    def close(self) -> None:
        """Ends the copy threads. Regions stay as they are, with the pool they show."""
        self.kernels.call("ho_close", self.handle)


def open_session(
    kernels: Kernels,
    pool_bytes: int,
    *,
    link_out: Link,
    link_in: Link,
    half_duplex: bool = False,
    folder: Path | None = None,
    paced: bool = True,
    random_delay_ns: int = 0,
    seed: int = 0,
) -> Session:
    """A session with a pool of ``pool_bytes``: shared memory, or a file without a name in ``folder``.

    ``paced``: copies take at least as long as the links would; otherwise they are as fast as memory.
    ``random_delay_ns``: each transfer starts its copy up to this much late, for tests. Raises `KernelError` where there
    is no room.
    """
    handle = kernels.call(
        "ho_open",
        None if folder is None else bytes(folder),
        pool_bytes,
        link_out.bytes_per_s,
        link_out.latency_ns,
        link_in.bytes_per_s,
        link_in.latency_ns,
        half_duplex,
        paced,
        random_delay_ns,
        seed,
    )
    return Session(kernels, handle)
