"""States of the exact search, what may start in them, what starts in between, and what is found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

State = tuple[int, int, int, int, int, int, int]
"""(ops that have run, running op, storages on the device, storages with a valid remote copy, storage being stored,
storage being fetched, persistent storages at home in the pool); -1 where nothing runs."""
Times = tuple[int, int, int, int]
"""(now, end of the running op, of the running Store, of the running Prefetch); now where nothing runs."""


class Choice(NamedTuple):
    """What may start in a state at its time: an op, a Store and a Prefetch of a storage, -1 for none of it.

    ``running`` is the op that runs then; ``device`` and ``remote`` hold what is on the device and validly in the pool,
    without the fetched storage and before anything leaves; ``fresh`` storages take room with the op. ``worthless``
    storages on the device hold nothing that is read again, ``clean`` ones have a valid remote copy; both may leave.
    """

    op: int
    store: int
    fetch: int
    running: int
    device: int
    remote: int
    fresh: int
    worthless: int
    clean: int


class Start(NamedTuple):
    """What starts at ``ns``: an op, a Store and a Prefetch of a storage (-1: none); ``evicted`` storages leave just
    before."""

    ns: int
    op: int
    store: int
    prefetch: int
    evicted: int


@dataclass(frozen=True)
class Found:
    """A finished step: its duration, bytes moved, starts in order of time, and homes in the pool (mask)."""

    step_ns: int
    moved_bytes: int
    starts: tuple[Start, ...]
    device_at_start: int
    pool_home: int


def from_now(times: Times) -> Times:
    """The same times, counted from now."""
    now = times[0]
    return (0, times[1] - now, times[2] - now, times[3] - now)


def nowhere_later(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Of two `Times`, or of two with moved bytes behind them."""
    return (
        one[0] <= other[0] and one[1] <= other[1] and one[2] <= other[2] and one[3] <= other[3] and one[-1] <= other[-1]
    )
