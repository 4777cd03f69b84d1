"""States of the exact search, what starts in between, and what is found."""

from __future__ import annotations

from dataclasses import dataclass

State = tuple[int, int, int, int, int, int, int]
"""(ops that have run, running op, storages on the device, storages with a valid remote copy, storage being stored,
storage being fetched, persistent storages at home in the pool); -1 where nothing runs."""
Times = tuple[int, int, int, int]
"""(now, end of the running op, of the running Store, of the running Prefetch); now where nothing runs."""


@dataclass(frozen=True, slots=True)
class Start:
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
