"""Random recomputations for tests, picked blindly and kept where they are legal, and schedules with them."""

from __future__ import annotations

from random import Random

from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.recomputation import Recomputation, RecomputationError, recompute
from hyperoffload_core.schedule import Schedule
from tests.graphs import random_graph
from tests.naive_schedule import naive_schedule, random_order


def random_recomputations(random: Random, graph: Graph, most: int = 3) -> list[Recomputation]:
    """Up to ``most`` recomputations that `recompute` accepts together, often none."""
    found: list[Recomputation] = []
    for _ in range(8 * most):
        if len(graph.ops) < 2 or len(found) == most:
            break
        item = _random_recomputation(random, graph)
        try:
            recompute(graph, [*found, item])
        except RecomputationError:
            continue
        found.append(item)
    return found


def _random_recomputation(random: Random, graph: Graph) -> Recomputation:
    before = random.randrange(1, len(graph.ops))
    ops = random.sample(range(before), random.randint(1, min(3, before)))
    written = {s for op in ops for s in graph.ops[op].writes}
    readers = [op.id for op in graph.ops[before:] if written.intersection(op.reads)]
    kept = random.sample(readers, random.randint(min(1, len(readers)), len(readers)))
    return Recomputation(tuple(sorted(ops)), before, tuple(sorted(kept)))


def random_recomputed_schedule(random: Random, most_ops: int = 14) -> tuple[Graph, Schedule]:
    """A random graph, and a schedule of it with random recomputations, gaps, homes and order."""
    graph = random_graph(random, most_ops)
    again = recompute(graph, random_recomputations(random, graph))
    durations = [random.randint(1, 40) for _ in graph.ops]
    rate = random.choice([0.0, 0.4, 1.0])
    schedule = naive_schedule(
        again,
        durations_ns=[durations[o] for o in again.origins],
        order=random_order(random, again) if random.random() < 0.5 else None,
        gaps=[
            (s.id, k) for s in again.storages for k in range(-1, len(again.accesses[s.id])) if random.random() < rate
        ],
        homes={s.id: "pool" for s in graph.storages if random.random() < rate / 2},
    )
    return graph, schedule
