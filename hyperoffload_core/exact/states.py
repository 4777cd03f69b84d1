"""States of the exact search, what starts in between, and what is found."""

from __future__ import annotations

from dataclasses import dataclass

Places = tuple[int, ...]
"""Offsets by storage, -1 for none; empty in a search that assigns no addresses."""
State = tuple[int, int, int, int, int, int, int, Places, Places]
"""(ops that have run, running op, storages on the device, storages with a valid remote copy, storage being stored,
storage being fetched, persistent storages at home in the pool, places on the device with that of the running op's
workspace behind them, places to return to before the step ends); -1 where nothing runs."""
Times = tuple[int, int, int, int]
"""(now, end of the running op, of the running Store, of the running Prefetch); now where nothing runs."""


WORKSPACE = -1
"""Stands for the workspace of an op where blocks are placed."""


@dataclass(frozen=True, slots=True)
class Start:
    """What starts at ``ns``: an op, a Store and a Prefetch of a storage (-1: none); ``evicted`` storages leave just
    before. ``placed``: (storage or `WORKSPACE`, offset) of what takes room, where the search assigns addresses."""

    ns: int
    op: int
    store: int
    prefetch: int
    evicted: int
    placed: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Found:
    """A finished step: its duration, bytes moved, starts in order of time, and homes in the pool (mask)."""

    step_ns: int
    moved_bytes: int
    starts: tuple[Start, ...]
    device_at_start: int
    pool_home: int
    offsets_at_start: tuple[tuple[int, int], ...] = ()
