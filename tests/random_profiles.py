"""Made-up steps: any times, sizes and overlaps that a recording may hold, on a small real graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from dashboard_example import example_graph, example_profile, example_schedule
from hypothesis import strategies as st

from hyperoffload_core.recording import OpEvents, Profile, StorageLifetimes, TransferEvents

BASE = example_profile(example_schedule(), "measured")
GRAPH = example_graph()
END_NS = 400


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """One step of at most 400 ns: ops one after the other or beside each other, stays of one storage apart, transfers
    anywhere."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ops = len(GRAPH.ops)
    start = np.sort(random.integers(0, END_NS, ops))
    one_stream = np.minimum(np.append(start[1:], END_NS), start + random.integers(0, 40, ops))
    end = one_stream if draw(st.booleans()) else start + random.integers(0, 60, ops)
    rows = []
    for storage in GRAPH.storages:
        edges = np.unique(random.integers(0, END_NS, 2 * random.integers(0, 4)))
        size = int(random.integers(1, 2**40))
        rows += [
            (storage.id, int(random.integers(0, 2**40)), size, a, b)
            for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=False)
        ]
    storage, offset, size, begin, until = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    moves = BASE.transfers.transfer
    move_start = random.integers(0, END_NS, len(moves))
    return replace(
        BASE,
        ops=OpEvents(np.zeros(ops, dtype=np.int64), np.arange(ops), start, end, np.zeros(ops, dtype=np.int64)),
        lifetimes=StorageLifetimes(np.zeros(len(rows), dtype=np.int64), storage, offset, size, begin, until),
        transfers=TransferEvents(
            BASE.transfers.step,
            moves,
            BASE.transfers.storage,
            BASE.transfers.direction,
            random.integers(1, 2**40, len(moves)),
            move_start,
            move_start + random.integers(0, 30, len(moves)),
        ),
    )
