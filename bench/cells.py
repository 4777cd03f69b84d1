"""Cells of the benchmark matrix: a workload on a hardware under a limit, compiled with one strategy, as a row."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from hyperoffload_core import compile as pipeline
from hyperoffload_core.analysis.bounds import step_lower_bound_ns
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import InfeasibleError, compile_schedule
from hyperoffload_core.cost import Durations, roofline_durations
from hyperoffload_core.errors import UserError
from hyperoffload_core.graphfile import read_graph
from hyperoffload_core.hardware import Hardware, load_hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import policy_from_document
from hyperoffload_core.verifier import ScheduleViolation

WORKLOADS = ("demo", "llama3-8b-train", "llama3-8b-decode")
HARDWARE = ("ascend-910c", "ascend-910c-host", "h100-pcie5", "gh200")
LIMITS = ("90%", "75%", "60%", "50%", "35%")
OURS = "hyperoffload"
AT_BEST = "hyperoffload+best"
"""OURS with effort best; measured where OURS is more than 3 % above the bound."""
RECOMPUTING = ("hyperoffload+recompute", "recompute")
"""Rows whose schedules may run ops again (the first: OURS with option recompute); they are compared with each other."""


@dataclass(frozen=True)
class Row:
    """One compile. ``bound_ns`` is the lower bound of the cell, the same for all strategies that run every op once.

    ``outcome``: "met" or "over" the limit (by ``over_bytes``), "infeasible" (no schedule meets the limit; the smallest
    that can be met is ``smallest_bytes``), "refused" or "invalid" (the verifier's or the strategy's sentence is in
    ``note``); the last three have no numbers.
    """

    workload: str
    hardware: str
    limit: str
    strategy: str
    outcome: str
    limit_bytes: int = 0
    over_bytes: int = 0
    step_ns: int = 0
    bound_ns: int = 0
    compute_ns: int = 0
    exposed_ns: int = 0
    peak_bytes: int = 0
    reserved_bytes: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    transfers: int = 0
    compile_s: float = 0.0
    smallest_bytes: int = 0
    note: str = ""

    @property
    def cell(self) -> tuple[str, str, str]:
        return self.workload, self.hardware, self.limit

    @property
    def above_bound(self) -> float:
        """Of a schedule that meets the limit."""
        return self.step_ns / self.bound_ns - 1 if self.bound_ns else 0.0


@dataclass(frozen=True)
class Problem:
    workload: str
    graph: Graph
    hardware: Hardware
    durations: Durations
    live_peak_bytes: int


def load_problem(workload: str, hardware: str, graphs: Path) -> Problem:
    """The captured graph ``graphs/WORKLOAD.json.gz`` with the roofline of the hardware."""
    graph, description = read_graph(graphs / f"{workload}.json.gz").graph, load_hardware(hardware)
    return Problem(workload, graph, description, roofline_durations(graph, description), live_peak_bytes(graph))


def compile_cell(problem: Problem, limit: str, strategy: str) -> Row:
    """One row; what cannot be compiled is a row as well."""
    where = (problem.workload, problem.hardware.name, limit, strategy)
    name, _, option = strategy.partition("+")
    options = {"effort": option} if option == "best" else {option: True} if option else {}
    policy = policy_from_document({"memory_limit": limit, "strategy": name, "options": options})
    limit_bytes = policy.limit_bytes(problem.live_peak_bytes, problem.hardware.device_bytes)
    began = time.perf_counter()
    try:
        schedule = compile_schedule(problem.graph, problem.durations, problem.hardware, policy)
    except InfeasibleError as error:
        return Row(*where, "infeasible", limit_bytes, smallest_bytes=error.smallest.bytes, note=str(error))
    except UserError as error:
        return Row(*where, "refused", limit_bytes, note=str(error))
    except ScheduleViolation as error:
        return Row(*where, "invalid", limit_bytes, note=f"{error.rule}: {error}")
    took, m = time.perf_counter() - began, schedule.metrics
    over = max(0, m.reserved_bytes - limit_bytes)
    return Row(
        *where,
        outcome="over" if over else "met",
        limit_bytes=limit_bytes,
        over_bytes=over,
        step_ns=m.step_ns,
        bound_ns=m.lower_bound_ns,
        compute_ns=m.compute_ns,
        exposed_ns=m.exposed_ns,
        peak_bytes=m.peak_live_bytes,
        reserved_bytes=m.reserved_bytes,
        bytes_out=m.bytes_out,
        bytes_in=m.bytes_in,
        transfers=len(schedule.transfers),
        compile_s=took,
        note="; ".join(schedule.notes),
    )


def compile_others(workload: str, hardware: str, graphs: Path, limits: list[str], strategies: list[str]) -> list[Row]:
    """All given strategies under all given limits, for a process of its own.

    The lower bound is the same for all of a cell and costs more than many a strategy, so it is computed once per cell
    here: ``compile_s`` of these rows leaves it out but in the first.
    """
    known: dict[tuple[int, bool], int] = {}

    def bound(graph: Graph, ns: tuple[int, ...], on: Hardware, limit_bytes: int, *, recomputed: bool = False) -> int:
        key = (limit_bytes, recomputed)
        if key not in known:
            known[key] = step_lower_bound_ns(graph, ns, on, limit_bytes, recomputed=recomputed)
        return known[key]

    pipeline.step_lower_bound_ns = bound  # type: ignore[assignment]
    problem = load_problem(workload, hardware, graphs)
    rows: list[Row] = []
    for limit in limits:
        met = {row.strategy for row in rows if row.limit == limit and row.outcome == "met"}
        for strategy in strategies:
            if strategy == RECOMPUTING[0] and RECOMPUTING[1] not in met:
                continue  # it is there to be compared with that one
            rows.append(compile_cell(problem, limit, strategy))
            if rows[-1].outcome == "met":
                met.add(strategy)
    return rows
