"""What a step takes at least because transfers take memory while they run (proof in docs/scheduling.md).

Memory x time: a storage that leaves is on the device while its transfers and its ops run, so over a whole step it frees
less than its bytes for all of the time. Enough storages have to leave to make up for that, and links have to carry all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul

import numpy as np

from hyperoffload_core.analysis.linear import LinearProgram
from hyperoffload_core.analysis.whole_moves import bytes_besides, least_bytes_back, returning_storages
from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph

_PRECISION = 1e-5
"""The bound is found to this part of it."""
_TOLERANCE = 1e-6
"""By how much of it the time of links is lowered so that the solver's own tolerance cannot make it too high."""


@dataclass(frozen=True)
class _Leaving:
    """Storages that are alike. One that leaves is on the device for ``stays_ns`` at least, all its transfers take
    ``in_ns`` and ``out_ns``."""

    bytes: int
    in_ns: int
    out_ns: int
    stays_ns: int


def memory_time_bound_ns(
    graph: Graph, durations_ns: Sequence[int], hardware: Hardware, limit_bytes: int, known_ns: int
) -> int:
    """What every step takes at least, in ns, given another such bound; it if this one says no more."""
    returning = returning_storages(graph)
    always = sum(graph.storages[s].bytes for s in returning)
    if not returning or known_ns <= 0 or limit_bytes <= 0:
        return known_ns
    # bytes x ns besides: what ops work with that is not always there
    besides = sum(map(mul, durations_ns, bytes_besides(graph)))
    alike = Counter(_leaving(graph, storage, durations_ns, hardware) for storage in returning)
    back = least_bytes_back(graph, limit_bytes)

    def fits(step_ns: float) -> bool:
        over = always - limit_bytes + besides / step_ns
        return _least_link_ns(alike, hardware, over, back, step_ns) * (1 - _TOLERANCE) <= step_ns

    low = float(known_ns)
    if fits(low):
        return known_ns
    high = 2 * low
    while not fits(high):
        low, high = high, 2 * high
    while high - low > _PRECISION * low:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return int(low)


def _leaving(graph: Graph, storage: int, durations_ns: Sequence[int], hardware: Hardware) -> _Leaving:
    size, accesses = graph.storages[storage].bytes, graph.accesses[storage]
    writing = {a.op for a in accesses if a.writes}
    written_ns = sum(durations_ns[op] for op in writing)
    read_ns = sum(durations_ns[op] for op in {a.op for a in accesses} - writing)
    in_ns = transfer_ns(size, hardware.link_in)
    out_ns = transfer_ns(size, hardware.link_out) if writing else 0
    return _Leaving(size, in_ns, out_ns, in_ns + written_ns + max(read_ns, out_ns))


def _least_link_ns(alike: Counter[_Leaving], hardware: Hardware, over: float, back: int, step_ns: float) -> float:
    """The time the busier link is busy at least when ``over`` bytes are away on average and ``back`` come back."""
    storages = list(alike)
    count = np.array([alike[s] for s in storages], np.float64)
    size = np.array([s.bytes for s in storages], np.float64) * count
    freed = size * np.array([max(0.0, 1 - s.stays_ns / step_ns) for s in storages])
    if freed.sum() < over:
        return np.inf
    in_ns, out_ns = (count * np.array([getattr(s, name) for s in storages]) for name in ("in_ns", "out_ns"))
    program = LinearProgram()
    for _ in storages:
        program.column()
    busy = program.column(upper=np.inf)
    unit = float(size.sum())
    program.at_most(list(enumerate((-freed / unit).tolist())), -over / unit)
    program.at_most(list(enumerate((-size / unit).tolist())), -back / unit)
    for times in [in_ns + out_ns] if hardware.duplex == "half" else [in_ns, out_ns]:
        program.at_most([*enumerate((times / step_ns).tolist()), (busy, -1.0)], 0.0)
    cost = np.zeros(program.columns)
    cost[busy] = 1.0
    answer = program.minimise(cost)
    return 0.0 if answer is None else answer[0] * step_ns
