"""Small planning problems by seed: what the exact optimum is compared on, in tests and in `bench.optimum`.

Sizes are multiples of 64 bytes, so that alignment costs nothing; a byte takes 1 ns on a link, so that transfers and ops
are of one magnitude and what to move, when and in which order matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from hyperoffload_core.analysis.bounds import smallest_feasible_limit
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph, TensorClass
from tests.graphs import GraphBuilder

UNIT_BYTES = 64


@dataclass(frozen=True)
class SmallProblem:
    """One graph with durations, links and a limit between the smallest feasible one and the peak."""

    seed: int
    kind: str
    graph: Graph
    durations_ns: tuple[int, ...]
    hardware: Hardware
    limit_bytes: int


def small_problem(seed: int, most_ops: int = 8) -> SmallProblem:
    random = Random(seed)
    kind = random.choice(tuple(_KINDS))
    graph = _KINDS[kind](_Dice(random, random.choice(_UNITS)), most_ops)
    latency = random.choice([0, 5, 40])
    out = Link(random.choice([1, 1, 2]) * 1_000_000_000, latency)
    into = Link(random.choice([1, 1, 2]) * 1_000_000_000, latency)
    hardware = Hardware("small", "a small test device", 1 << 30, out, into, random.choice(["full", "full", "half"]))
    scale = random.choice([20, 200, 600])
    durations = tuple(random.randint(scale // 4, scale * 2) for _ in graph.ops)
    smallest, peak = smallest_feasible_limit(graph).bytes, live_peak_bytes(graph)
    part = random.choice([0, 15, 30, 45, 60, 80])
    limit = smallest + max(0, peak - smallest) * part // 100 // UNIT_BYTES * UNIT_BYTES
    return SmallProblem(seed, kind, graph, durations, hardware, limit)


@dataclass(frozen=True)
class _Dice:
    """Draws of one problem. ``units`` are the sizes it uses: models repeat a few sizes, layer after layer."""

    random: Random
    units: tuple[int, ...]

    def size(self, most: int = 8) -> int:
        return self.random.choice([u for u in self.units if u <= most] or [self.units[0]]) * UNIT_BYTES


_UNITS = ((2,), (2, 4), (2, 4), (1, 2, 4), (1, 4), (3, 6), (1, 2, 3, 4, 5, 6, 7, 8))


def _inference(dice: _Dice, most_ops: int) -> Graph:
    """A chain of layers, each with a weight that is only read."""
    b = GraphBuilder("inference")
    x = b.storage("x", dice.size(), "input")
    layers = dice.random.randint(2, min(5, most_ops))
    for i in range(layers):
        out = b.storage(f"a{i}", dice.size(4), "output" if i == layers - 1 else "activation")
        b.op(f"layer:{i}", [x, b.storage(f"w{i}", dice.size(), "weight", True)], [out])
        x = out
    return b.graph()


def _backward(dice: _Dice, most_ops: int) -> Graph:
    """Activations with long gaps: a forward chain, and a backward chain that reads it in reverse."""
    b = GraphBuilder("backward")
    layers = dice.random.randint(2, min(4, most_ops // 2))
    x = [b.storage("x", dice.size(), "input")]
    for i in range(layers):
        x.append(b.storage(f"a{i}", dice.size()))
        b.op(f"forward:{i}", [x[i]], [x[i + 1]])
    gradient = x[-1]
    for i in reversed(range(layers)):
        below = b.storage(f"d{i}", dice.size(4), "output" if i == 0 else "gradient")
        b.op(f"backward:{i}", [gradient, x[i]], [below], "backward", dice.random.choice([0, 0, UNIT_BYTES]))
        gradient = below
    return b.graph()


def _training(dice: _Dice, most_ops: int) -> Graph:
    """Weights updated in place, some with an optimizer state, some updates fused into the backward op."""
    b = GraphBuilder("training")
    layers = dice.random.randint(1, 2 if most_ops >= 6 else 1)
    sizes = [dice.size() for _ in range(layers)]
    weights = [b.storage(f"w{i}", size, "weight", True) for i, size in enumerate(sizes)]
    states = [
        b.storage(f"m{i}", dice.size(), "optimizer_state", True) if dice.random.random() < 0.4 else -1 for i in weights
    ]
    x = [b.storage("x", dice.size(4), "input")]
    for i in range(layers):
        x.append(b.storage(f"a{i}", dice.size()))
        b.op(f"forward:{i}", [x[i], weights[i]], [x[i + 1]])
    gradient = x[-1]
    for i in reversed(range(layers)):
        weight_gradient = b.storage(f"g{i}", sizes[i], "gradient")
        written = [weight_gradient]
        if i:
            below = b.storage(f"d{i}", dice.size(4), "gradient")
            written.append(below)
        b.op(f"backward:{i}", [gradient, x[i], weights[i]], written, "backward")
        gradient = written[-1]
        updated = [weights[i]] + ([states[i]] if states[i] >= 0 else [])
        b.op(f"update:{i}", [weight_gradient, *updated], updated, "optimizer")
    return b.graph()


def _decode(dice: _Dice, most_ops: int) -> Graph:
    """Layers with a weight that is read and a cache that is updated in place."""
    b = GraphBuilder("decode")
    x = b.storage("x", UNIT_BYTES, "input")
    layers = dice.random.randint(2, min(3, most_ops))
    for i in range(layers):
        out = b.storage(f"a{i}", UNIT_BYTES, "output" if i == layers - 1 else "activation")
        cache = b.storage(f"kv{i}", dice.size(), "kv_cache", True)
        reads = [x, cache]
        if dice.random.random() < 0.6:
            reads.append(b.storage(f"w{i}", dice.size(), "weight", True))
        b.op(f"layer:{i}", reads, [out, cache])
        x = out
    return b.graph()


def _tangle(dice: _Dice, most_ops: int) -> Graph:
    """Any reads of what there is; new results, updates in place, and now and then a value overwritten unread."""
    b = GraphBuilder("tangle")
    alive: list[int] = []
    for i in range(dice.random.randint(1, 3)):
        tensor_class: TensorClass = dice.random.choice(["weight", "weight", "optimizer_state", "input", "kv_cache"])
        alive.append(b.storage(f"s{i}", dice.size(), tensor_class, tensor_class != "input"))
    made = 0
    for i in range(dice.random.randint(3, most_ops)):
        reads = dice.random.sample(alive, min(len(alive), dice.random.randint(1, 3)))
        writes: list[int] = []
        kind = dice.random.choice(["new", "new", "new", "in place", "in place", "overwrite"])
        if kind == "new" and made < 6:
            made += 1
            made_class: TensorClass = dice.random.choice(
                ["activation", "activation", "activation", "gradient", "output"]
            )
            writes.append(b.storage(f"t{i}", dice.size(), made_class))
        elif kind == "overwrite" and dice.random.random() < 0.3:
            writes.append(dice.random.choice(alive))
        else:
            writes.append(dice.random.choice(reads))
        after = [dice.random.randrange(i)] if i and dice.random.random() < 0.15 else []
        b.op(f"op:{i}", reads, writes, workspace=dice.random.choice([0, 0, 0, UNIT_BYTES]), after=after)
        alive.extend(w for w in writes if w not in alive)
    return b.graph()


_KINDS: dict[str, Callable[[_Dice, int], Graph]] = {
    "inference": _inference,
    "backward": _backward,
    "training": _training,
    "decode": _decode,
    "tangle": _tangle,
}
