"""The shortest step of a tiny graph as a mixed-integer linear program, solved by HiGHS.

A third way to the optimum beside the search of `hyperoffload_core.exact` and `tests.exhaustive`. Events 0 to E split
the step into intervals; ops and transfers start at events and occupy whole intervals, and state variables say per
storage and interval what the device and the pool hold. By live bytes, without addresses. With fewer events than the
best schedule has distinct starts the result may be longer than the optimum, never shorter.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_matrix

from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph

Terms = list[tuple[float, int]]


@dataclass
class _Model:
    """Variables and rows; a row says that the terms sum up to at least ``low``."""

    upper: list[float] = field(default_factory=list)
    integral: list[int] = field(default_factory=list)
    rows: list[tuple[Terms, float]] = field(default_factory=list)

    def binary(self) -> int:
        self.upper.append(1)
        self.integral.append(1)
        return len(self.upper) - 1

    def time(self) -> int:
        self.upper.append(np.inf)
        self.integral.append(0)
        return len(self.upper) - 1

    def at_least(self, terms: Terms, low: float) -> None:
        self.rows.append((terms, low))

    def at_most(self, terms: Terms, high: float) -> None:
        self.rows.append(([(-a, v) for a, v in terms], -high))

    def minimum(self, variable: int, most_seconds: float) -> float | None:
        entries = [(r, v, a) for r, (terms, _) in enumerate(self.rows) for a, v in terms]
        row, column, value = (np.array(c) for c in zip(*entries, strict=True))
        matrix = coo_matrix((value, (row, column)), shape=(len(self.rows), len(self.upper)))
        cost = np.zeros(len(self.upper))
        cost[variable] = 1
        result = milp(
            cost,
            integrality=np.array(self.integral),
            bounds=Bounds(0, np.array(self.upper)),
            constraints=LinearConstraint(matrix.tocsr(), np.array([low for _, low in self.rows]), np.inf),
            options={"time_limit": most_seconds, "mip_rel_gap": 0.0},
        )
        if result.status == 2:
            return None
        assert result.status == 0, result.message
        return float(result.fun)


def shortest_ns_by_highs(
    graph: Graph,
    durations_ns: tuple[int, ...],
    hardware: Hardware,
    limit_bytes: int,
    events: int,
    most_seconds: float = 60.0,
) -> int | None:
    """The shortest step in which at most ``events`` distinct moments start something; None if there is none."""
    m = _Model()
    end = events
    moments = [m.time() for _ in range(events + 1)]
    m.at_most([(1, moments[0])], 0)
    for e in range(events):
        m.at_least([(1, moments[e + 1]), (-1, moments[e])], 0)
    m.at_least([(1, moments[end])], sum(durations_ns))

    def activity(ns: int) -> tuple[list[int], list[int]]:
        """(starts at event, occupies interval); the last interval, behind the step, stays free."""
        begins = [m.binary() for _ in range(events)]
        runs = [m.binary() for _ in range(events + 1)]
        m.at_most([(1, runs[end])], 0)
        for e in range(events):
            m.at_least([(1, runs[e]), (-1, begins[e])], 0)
            before: Terms = [(1, runs[e - 1])] if e else []
            m.at_least([*before, (1, begins[e]), (-1, runs[e])], 0)
            if e:
                m.at_most([(1, begins[e]), (1, runs[e - 1])], 1)
            for f in range(e + 1, events + 1):
                m.at_least([(1, moments[f]), (-1, moments[e]), (-ns, begins[e]), (ns, runs[f])], 0)
        return begins, runs

    ops = [activity(ns) for ns in durations_ns]
    used = sorted({s for op in graph.ops for s in (*op.reads, *op.writes)})
    size = {s: graph.storages[s].bytes for s in used}
    stores = {s: activity(transfer_ns(size[s], hardware.link_out)) for s in used}
    fetches = {s: activity(transfer_ns(size[s], hardware.link_in)) for s in used}
    home = {s: m.binary() for s in used if graph.exists_at_start(s)}
    valid_here = {s: [m.binary() for _ in range(events + 1)] for s in used}
    valid_there = {s: [m.binary() for _ in range(events + 1)] for s in used}
    room = {s: [m.binary() for _ in range(events + 1)] for s in used}
    writers: dict[int, list[int]] = defaultdict(list)
    for op in graph.ops:
        for s in op.writes:
            writers[s].append(op.id)

    def ended(runs: list[int], e: int) -> int:
        """A variable that may be 1 only if the activity runs up to event e and no longer."""
        variable = m.binary()
        m.at_most([(1, variable)] if not e else [(1, variable), (-1, runs[e - 1])], 0)
        m.at_most([(1, variable), (1, runs[e])], 1)
        return variable

    arrived = {s: [ended(fetches[s][1], e) for e in range(events + 1)] for s in used}
    for op in graph.ops:
        begins, runs = ops[op.id]
        m.at_least([(1, b) for b in begins], 1)
        m.at_most([(1, b) for b in begins], 1)
        for e in range(events):
            for before in op.after:
                m.at_least([*((1, b) for b in ops[before][0][:e]), (-1, begins[e])], 0)
            for s in op.reads:
                there: Terms = [(1, valid_here[s][e - 1])] if e else ([(1, home[s])] if s in home else [])
                m.at_least([*there, (1, arrived[s][e]), (-1, begins[e])], 0)
            for s in {*op.reads, *op.writes}:
                m.at_least([(1, valid_here[s][e]), (-1, runs[e])], 0)
    for s in used:
        for e in range(events + 1):
            writing: Terms = [(1, ops[w][1][e]) for w in writers[s]]
            storing, fetching, here, there_ = stores[s][1][e], fetches[s][1][e], valid_here[s][e], valid_there[s][e]
            kept: Terms = [(1, valid_here[s][e - 1])] if e else ([(1, home[s])] if s in home else [])
            m.at_least([*kept, (1, arrived[s][e]), *writing, (-1, here)], 0)
            m.at_most([(1, here), (1, fetching)], 1)
            m.at_most([(1, here), (-1, room[s][e])], 0)
            m.at_most([(1, fetching), (-1, room[s][e])], 0)
            m.at_most([(1, storing), (-1, here)], 0)
            m.at_most([(1, storing), *writing], 1)
            stored = ended(stores[s][1], e)
            if e:
                m.at_least([(1, valid_there[s][e - 1]), (1, stored), (-1, there_)], 0)
            elif s in home:
                m.at_most([(1, there_), (1, home[s])], 1)
            else:
                m.at_most([(1, there_)], 0)
            m.at_most([(1, there_), *writing], 1)
            m.at_most([(1, fetching), (-1, there_)], 0)
        if graph.storages[s].persistent:
            m.at_least([(1, valid_here[s][end]), (-1, home[s])], 0)
            m.at_least([(1, valid_there[s][end]), (1, home[s])], 1)
        elif graph.lives_to_end(s):
            m.at_least([(1, valid_here[s][end])], 1)
    m.at_most([(size[s], home[s]) for s in home], limit_bytes)
    for e in range(events + 1):
        spaces: Terms = [(op.workspace_bytes, ops[op.id][1][e]) for op in graph.ops]
        m.at_most([*((size[s], room[s][e]) for s in used), *spaces], limit_bytes)
        m.at_most([(1, runs[e]) for _, runs in ops], 1)
        out: Terms = [(1, stores[s][1][e]) for s in used]
        into: Terms = [(1, fetches[s][1][e]) for s in used]
        for link in [[*out, *into]] if hardware.duplex == "half" else [out, into]:
            m.at_most(link, 1)
    best = m.minimum(moments[end], most_seconds)
    return None if best is None else round(best)
