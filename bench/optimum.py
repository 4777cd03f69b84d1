"""How often `hyperoffload` equals the proved optimum on small graphs, and how far off it is otherwise.

    python -m bench.optimum                 compare with the stored optima (tests/data/optima.json)
    python -m bench.optimum --solve 60      find the optima again, at most 60 s each, and store them first

Problems are `tests.small_problems` by seed: the first 500 whose optimum was proved in that time. Durations and links
are made up, times predicted. Prints a Markdown table by kind of graph, and the ten worst with limit and both steps.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.files import write_whole
from hyperoffload_core.policy import Policy
from hyperoffload_core.schedule import Schedule
from tests.small_problems import SmallProblem, small_problem

STORED = Path(__file__).parent.parent / "tests" / "data" / "optima.json"
PROBLEMS = 500
WORST = 10


@dataclass(frozen=True)
class StoredOptimum:
    """``graph`` is the beginning of its hash, so that a changed generator is noticed."""

    seed: int
    graph: str
    limit_bytes: int
    optimum_ns: int


@dataclass(frozen=True)
class Compared:
    """One problem: its stored optimum and what ours makes of it."""

    problem: SmallProblem
    optimum_ns: int
    ours_ns: int

    @property
    def gap(self) -> float:
        return self.ours_ns / self.optimum_ns - 1


def compiled(problem: SmallProblem, strategy: str, **options: bool | int | float | str) -> Schedule:
    policy = Policy(memory_limit=f"{problem.limit_bytes}B", strategy=strategy, options=options)
    return compile_schedule(problem.graph, Durations(problem.durations_ns, "made up"), problem.hardware, policy)


def solve(problem: SmallProblem, seconds: float) -> StoredOptimum | None:
    """The optimum, None if it was not proved in that time."""
    schedule = compiled(problem, "optimal", time_limit_s=seconds)
    if any(note.startswith("not proved") for note in schedule.notes):
        return None
    return StoredOptimum(problem.seed, problem.graph.hash[:12], problem.limit_bytes, schedule.metrics.step_ns)


def read_optima(path: Path = STORED) -> list[StoredOptimum]:
    return [StoredOptimum(**row) for row in json.loads(path.read_text())]


def write_optima(optima: Sequence[StoredOptimum], path: Path = STORED) -> None:
    path.parent.mkdir(exist_ok=True)
    rows = ",\n".join(json.dumps(asdict(o)) for o in optima)
    write_whole(path, f"[\n{rows}\n]\n".encode())


def compare(stored: StoredOptimum, effort: str) -> Compared:
    problem = small_problem(stored.seed)
    if problem.graph.hash[:12] != stored.graph or problem.limit_bytes != stored.limit_bytes:
        raise SystemExit(
            f"bench.optimum: the optimum of seed {stored.seed} is of another problem; --solve 60 finds all again"
        )
    return Compared(problem, stored.optimum_ns, compiled(problem, "hyperoffload", effort=effort).metrics.step_ns)


def table(rows: Sequence[Compared]) -> list[str]:
    """Per kind of graph and in all: how many are equal (or below, where parts of transfers help), and the gaps."""
    lines = [
        "| kind | problems | equal | within 5 % | mean gap | worst gap |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    kinds = sorted({r.problem.kind for r in rows})
    for name, chosen in [*((k, [r for r in rows if r.problem.kind == k]) for k in kinds), ("all", list(rows))]:
        gaps = [max(0.0, r.gap) for r in chosen]
        lines.append(
            f"| {name} | {len(gaps)} | {sum(g == 0 for g in gaps) / len(gaps):.1%} "
            f"| {sum(g <= 0.05 for g in gaps) / len(gaps):.1%} | {sum(gaps) / len(gaps):.2%} | {max(gaps):.2%} |"
        )
    return lines


def worst(rows: Sequence[Compared]) -> list[str]:
    lines = [
        "| seed | kind | ops | storages | duplex | limit bytes | hyperoffload ns | optimum ns | gap |",
        "|--:|---|--:|--:|---|--:|--:|--:|--:|",
    ]
    for r in sorted((r for r in rows if r.gap > 0), key=lambda r: -r.gap)[:WORST]:
        p = r.problem
        lines.append(
            f"| {p.seed} | {p.kind} | {len(p.graph.ops)} | {len(p.graph.storages)} | {p.hardware.duplex} "
            f"| {p.limit_bytes} | {r.ours_ns} | {r.optimum_ns} | {r.gap:.2%} |"
        )
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.optimum", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--solve", type=float, metavar="SECONDS", help="find the optima again, this long for each")
    parser.add_argument("--effort", default="normal", choices=["fast", "normal", "best"])
    given = parser.parse_args(arguments)
    if given.solve is not None:
        optima: list[StoredOptimum] = []
        for seed in count():
            found = solve(small_problem(seed), given.solve)
            optima += [found] if found is not None else []
            print(f"seed {seed}: {len(optima)} proved", end="\r", file=sys.stderr)
            if len(optima) == PROBLEMS:
                break
        write_optima(optima)
    optima = read_optima()
    tried = f"{len(optima)} problems whose optimum is proved, of the first {optima[-1].seed + 1} seeds"
    rows = [compare(o, given.effort) for o in optima]
    print("\n".join([f"`hyperoffload` at effort {given.effort} against the optimum: {tried}.", "", *table(rows), ""]))
    print("\n".join(["The worst:", "", *worst(rows)]))


if __name__ == "__main__":
    main()
