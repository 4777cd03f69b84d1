"""How far each stream (compute, and each link) has come in this step, and waiting for it.

Ops run in one order and the transfers of a link in another, so "these ops and transfers have ended" is one number per
stream. Each stream has one thread that advances it.
"""

from __future__ import annotations

import sys
import threading
from time import monotonic

COMPUTE = 0
_NOBODY = sys.maxsize


class StoppedError(Exception):
    """The step was abandoned while the thread waited."""


class Progress:
    """``done[stream]`` counts the ops or transfers of the stream that have ended in the current step."""

    def __init__(self, streams: int) -> None:
        self.done = [0] * streams
        self.stopped = False
        self._awaited: list[list[int]] = [[] for _ in range(streams)]
        # The lowest count somebody waits for: below it an advance wakes nobody, so waiting costs compute nothing.
        self._wake_at = [_NOBODY] * streams
        self._conditions = [threading.Condition() for _ in range(streams)]

    def restart(self) -> None:
        """Begin a step. No thread may be waiting."""
        for stream in range(len(self.done)):
            self.done[stream] = 0

    def advance(self, stream: int) -> None:
        """One more op or transfer of the stream has ended."""
        self.done[stream] += 1
        # A waiter announces itself before it reads `done`, so either it sees this advance or it is seen here.
        if self.done[stream] >= self._wake_at[stream]:
            with self._conditions[stream]:
                self._conditions[stream].notify_all()

    def wait(self, stream: int, count: int, timeout_s: float | None = None) -> bool:
        """Wait until ``count`` have ended; False after the timeout. `StoppedError` when the step is abandoned."""
        if self.done[stream] >= count and not self.stopped:
            return True
        until = None if timeout_s is None else monotonic() + timeout_s
        condition, awaited = self._conditions[stream], self._awaited[stream]
        with condition:
            awaited.append(count)
            self._wake_at[stream] = min(awaited)
            try:
                while True:
                    if self.stopped:
                        raise StoppedError
                    if self.done[stream] >= count:
                        return True
                    left = None if until is None else until - monotonic()
                    if left is not None and left <= 0:
                        return False
                    condition.wait(left)
            finally:
                awaited.remove(count)
                self._wake_at[stream] = min(awaited, default=_NOBODY)

    def stop(self) -> None:
        """Abandon the step: every waiter, now and later, raises `StoppedError`."""
        self.stopped = True
        for condition in self._conditions:
            with condition:
                condition.notify_all()
