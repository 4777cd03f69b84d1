"""Copy threads: one per link direction (one in all for half duplex), each running its link's transfers in order.

A transfer starts when its predecessor on the link and everything it waits for have ended; nothing looks at predicted
times. Memory inside one host has no slow link, so a paced copy is stretched to the link's bandwidth: it moves a chunk,
then sleeps until the moment at which a link of that bandwidth, started when this transfer really started, would have
moved as much. A late wake-up is thus made up by the next chunk, and no transfer is faster than the bandwidth.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from time import perf_counter_ns, sleep

import numpy as np

from hyperoffload_core.hardware import Link
from hyperoffload_core.runtime.memory import Bytes
from hyperoffload_core.runtime.progress import Progress, StoppedError

NANOSECONDS = 1_000_000_000
# Each chunk wakes a thread on the cores that compute. Of a demo step's length over no offload, on two cores: 16 % with
# chunks of 256 KiB, 6 to 8 % with 1, 4 and 8 MiB.
CHUNK_BYTES = 4 << 20
# A sleeping copy thread runs again 30 to 45 us late beside busy kernels (measured: 10th percentile and median of 3,800
# transfers). That wake-up is part of the link's latency, not on top of it; the bandwidth is never exceeded.
WAKE_UP_NS = 40_000
_PR_SET_TIMERSLACK = 29


@dataclass(frozen=True, slots=True)
class Copy:
    """One transfer made concrete. ``row`` is where its times go; ``waits`` are (stream, count) pairs of `Progress`.

    ``before`` and ``after`` run in the copy thread just before the first byte moves and just after the last
    (poisoning in tests; None otherwise).
    """

    row: int
    source: Bytes
    target: Bytes
    link: Link
    waits: tuple[tuple[int, int], ...]
    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None


class CopyThread(threading.Thread):
    """Runs ``copies`` once per step. ``stamps[2 * row]`` and ``[2 * row + 1]`` get start and end (perf_counter_ns)."""

    def __init__(
        self,
        stream: int,
        name: str,
        copies: Sequence[Copy],
        progress: Progress,
        stamps: memoryview,
        *,
        paced: bool,
        delay_s: float,
        seed: int,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.error: BaseException | None = None
        self.bytes_moved = 0
        self.waiting_for: tuple[int, int, int] | None = None
        self.count = len(copies)
        self.stream = stream
        self._copies = copies
        self._progress = progress
        self._stamps = stamps
        self._paced = paced
        self._delay_s = delay_s
        self._random = np.random.default_rng(seed)
        self._steps: SimpleQueue[bool] = SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()

    def begin_step(self) -> None:
        self._idle.clear()
        self._steps.put(True)

    def wait_until_idle(self) -> None:
        """Returns when the thread touches no memory any more: its step has ended or was abandoned."""
        self._idle.wait()

    def close(self) -> None:
        self._steps.put(False)
        self.join()

    def run(self) -> None:
        # Sleeps otherwise end up to 50 us late, as the kernel rounds wake-ups of ordinary threads.
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
        while self._steps.get():
            try:
                for copy in self._copies:
                    self._transfer(copy)
            except StoppedError:
                pass
            except BaseException as error:
                self.error = error
                self._progress.stop()
            self._idle.set()

    def _transfer(self, copy: Copy) -> None:
        for stream, count in copy.waits:
            self.waiting_for = (copy.row, stream, count)
            self._progress.wait(stream, count)
        self.waiting_for = None
        if self._progress.stopped:
            raise StoppedError
        self._stamps[2 * copy.row] = start_ns = perf_counter_ns()
        if copy.before is not None:
            copy.before()
        if self._delay_s:
            sleep(self._delay_s * self._random.random())
        self._move(copy, start_ns)
        if copy.after is not None:
            copy.after()
        self._stamps[2 * copy.row + 1] = perf_counter_ns()
        self._progress.advance(self.stream)

    def _move(self, copy: Copy, start_ns: int) -> None:
        source, target, size = copy.source.ctypes.data, copy.target.ctypes.data, copy.source.nbytes
        latency_ns = max(0, copy.link.latency_ns - WAKE_UP_NS)
        for moved in range(0, size, CHUNK_BYTES):
            chunk = min(CHUNK_BYTES, size - moved)
            ctypes.memmove(target + moved, source + moved, chunk)
            self.bytes_moved += chunk
            if self._paced:
                due_ns = start_ns + latency_ns + (moved + chunk) * NANOSECONDS // copy.link.bytes_per_s
                ahead_ns = due_ns - perf_counter_ns()
                if ahead_ns > 0:
                    sleep(ahead_ns / NANOSECONDS)
            if self._progress.stopped:
                raise StoppedError
