"""The plugin's kernels called as MindSpore calls them: pointers to ids, tensors and tokens."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import Link
from hyperoffload_core.mindspore_plugin.kernels import EVENT_KINDS, Kernels, Session, load_kernels, open_session
from hyperoffload_core.mindspore_plugin.toolchain import build_kernels, find_compiler

FAST = Link(100_000_000_000, 0)
PAGE = 4096
MB = 1 << 20


def built_kernels() -> Kernels:
    """The library as it is built for use; skips where there is no compiler."""
    try:
        find_compiler()
    except UserError as error:
        pytest.skip(str(error))
    return load_kernels(build_kernels())


def skip_without_plugin() -> None:
    """Skips where what runs in MindSpore's graph mode cannot be built."""
    from hyperoffload_core.mindspore_plugin import passes

    try:
        passes.prepare()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture
def built_plugin() -> None:
    skip_without_plugin()


@pytest.fixture
def in_graph_mode() -> Iterator[None]:
    """MindSpore in graph mode, with the plugin built."""
    from hyperoffload_core.capture.mindir import graph_mode

    skip_without_plugin()
    with graph_mode():
        yield


def call_op(kernels: Kernels, op: str, *arguments: NDArray[Any]) -> int:
    """What kernel ``op`` returns for these inputs and output, in MindSpore's convention."""
    count = len(arguments)
    shapes = [(ctypes.c_int64 * max(a.ndim, 1))(*a.shape) for a in arguments]
    result = getattr(kernels.library, op)(
        count,
        (ctypes.c_void_p * count)(*(a.ctypes.data for a in arguments)),
        (ctypes.c_int * count)(*(a.ndim for a in arguments)),
        (ctypes.POINTER(ctypes.c_int64) * count)(*(ctypes.cast(s, ctypes.POINTER(ctypes.c_int64)) for s in shapes)),
        (ctypes.c_char_p * count)(*(a.dtype.name.encode() for a in arguments)),
        None,
        None,
    )
    return int(result)


@dataclass
class Steps:
    """Calls kernels of one session; a kernel that fails raises its sentence."""

    session: Session
    token: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    def _call(self, op: str, index: int, *arguments: NDArray[Any]) -> None:
        kernels = self.session.kernels
        if call_op(kernels, op, np.array(self.session.kernel_id(index)), *arguments) != 0:
            raise RuntimeError(kernels.last_error())

    def begin(self) -> None:
        self._call("HyperBegin", 0, self.token)

    def end(self) -> None:
        self._call("HyperEnd", 0, self.token, self.token)

    def mark(self, index: int) -> None:
        self._call("HyperMark", index, self.token, self.token)

    def release(self, index: int, tensor: NDArray[Any]) -> None:
        self._call("HyperRelease", index, tensor, self.token, self.token)

    def store(self, index: int, *tensor: NDArray[Any]) -> None:
        self._call("HyperStore", index, *tensor, self.token, self.token)

    def store_done(self, index: int, *tensor: NDArray[Any]) -> None:
        self._call("HyperStoreDone", index, *tensor, self.token, self.token)

    def prefetch(self, index: int, tensor: NDArray[Any] | None = None) -> None:
        self._call("HyperPrefetch", index, self.token, self.token if tensor is None else tensor)

    def prefetch_done(self, index: int, *tensor: NDArray[Any]) -> None:
        self._call("HyperPrefetchDone", index, *tensor, self.token, self.token)

    def detach(self, index: int) -> None:
        self._call("HyperDetach", index, self.token, self.token)

    def detach_done(self, index: int) -> None:
        self._call("HyperDetachDone", index, self.token, self.token)


def events_of(events: NDArray[np.void], kind: str) -> dict[int, Any]:
    """The events of one kind by index (of several steps, the last)."""
    return {int(e["index"]): e for e in events if EVENT_KINDS[e["kind"]] == kind}


@pytest.fixture(scope="session")
def plugin_kernels() -> Kernels:
    return built_kernels()


@pytest.fixture
def open_steps(plugin_kernels: Kernels) -> Iterator[Callable[..., Steps]]:
    """Opens sessions that are closed when the test is over."""
    sessions: list[Session] = []

    def open_steps(pool_bytes: int = 16 * MB, link: Link = FAST, **options: Any) -> Steps:
        options = {"paced": False} | options
        sessions.append(open_session(plugin_kernels, pool_bytes, link_out=link, link_in=link, **options))
        return Steps(sessions[-1])

    yield open_steps
    for session in sessions:
        session.close()


def numbers(count: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random(count, np.float32)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
