"""Small graphs, and a naive scheduler for tests: hand-made ones, and random ones that Hypothesis can shrink."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import strategies as st

from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph, Op, Phase, Storage, TensorClass, check_graph, dependencies

TINY = Hardware("tiny", "a tiny test device", 1 << 30, Link(1_000_000_000, 3), Link(1_000_000_000, 3), "full")
TINY_HALF = Hardware("tiny-half", "a tiny half-duplex device", 1 << 30, TINY.link_out, TINY.link_in, "half")


class GraphBuilder:
    """Storages and ops one after the other; `graph` adds the dependencies and checks the result."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._storages: list[Storage] = []
        self._ops: list[tuple[str, Phase, tuple[int, ...], tuple[int, ...], int, tuple[int, ...]]] = []

    def storage(self, name: str, size: int, tensor_class: TensorClass = "activation", persistent: bool = False) -> int:
        self._storages.append(Storage(len(self._storages), name, size, tensor_class, persistent, (size,), "uint8"))
        return len(self._storages) - 1

    def op(
        self,
        name: str,
        reads: Sequence[int] = (),
        writes: Sequence[int] = (),
        phase: Phase = "forward",
        workspace: int = 0,
        after: Sequence[int] = (),
    ) -> int:
        reads, writes = tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))
        self._ops.append((name, phase, reads, writes, workspace, tuple(after)))
        return len(self._ops) - 1

    def graph(self) -> Graph:
        needed = dependencies([(reads, writes) for _, _, reads, writes, _, _ in self._ops])
        ops = tuple(
            Op(i, name, name.split(":")[0], "", phase, reads, writes, tuple(sorted({*needed[i], *after})), workspace)
            for i, (name, phase, reads, writes, workspace, after) in enumerate(self._ops)
        )
        graph = Graph(self.name, ops, tuple(self._storages))
        check_graph(graph)
        return graph


def chain(length: int, size: int = 8) -> Graph:
    """An input through ``length`` ops to an output, each reading what the one before wrote."""
    b = GraphBuilder(f"chain{length}")
    last = b.storage("x", size, "input")
    for i in range(length):
        out = b.storage(f"a{i}", size, "output" if i == length - 1 else "activation")
        b.op(f"step:{i}", [last], [out])
        last = out
    return b.graph()


def training(layers: int, size: int = 8, workspace: int = 0) -> Graph:
    """Forward, backward and in-place optimizer over ``layers`` weights, each with one optimizer state."""
    b = GraphBuilder(f"training{layers}")
    weights = [b.storage(f"w{i}", size, "weight", True) for i in range(layers)]
    states = [b.storage(f"m{i}", size, "optimizer_state", True) for i in range(layers)]
    x = [b.storage("x", size, "input")]
    for i in range(layers):
        x.append(b.storage(f"a{i}", size))
        b.op(f"forward:{i}", [x[i], weights[i]], [x[i + 1]], "forward", workspace)
    loss, gradient = b.storage("loss", 1, "output"), b.storage("da", size, "gradient")
    b.op("loss", [x[-1]], [loss, gradient], "forward")
    gradients: list[int] = []
    for i in reversed(range(layers)):
        gradients.insert(0, b.storage(f"dw{i}", size, "gradient"))
        below = b.storage(f"da{i}", size, "gradient")
        b.op(f"backward:{i}", [gradient, x[i], weights[i]], [gradients[0], below], "backward", workspace)
        gradient = below
    for i in range(layers):
        b.op(f"adam:{i}", [gradients[i], weights[i], states[i]], [weights[i], states[i]], "optimizer")
    return b.graph()


BIG, SMALL = 1000, 10
"""Bytes of what a layer of `saving_layers` saves, and of what it hands on."""


def saving_layers(layers: int) -> Graph:
    """Layers that hand on little and each save one big activation for their backward op."""
    b = GraphBuilder("layers")
    x = [b.storage("x0", SMALL, "input")]
    saved = []
    for i in range(layers):
        saved.append(b.storage(f"a{i}", BIG))
        b.op(f"grow:{i}", [x[i]], [saved[i]])
        x.append(b.storage(f"x{i + 1}", SMALL))
        b.op(f"shrink:{i}", [saved[i]], [x[i + 1]])
    gradient = b.storage("g", SMALL, "gradient")
    b.op("loss", [x[-1]], [gradient], "backward")
    for i in reversed(range(layers)):
        below = b.storage(f"g{i}", SMALL, "output" if i == 0 else "gradient")
        b.op(f"backward:{i}", [gradient, saved[i], x[i]], [below], "backward")
        gradient = below
    return b.graph()


def edge_graph(name: str, edges: Sequence[tuple[str, str, int]], order_edges: Sequence[tuple[str, str]] = ()) -> Graph:
    """A graph from ``(producer, consumer, bytes)``; one storage per edge, ops in alphabetical order."""
    b = GraphBuilder(name)
    names = sorted({op for source, target, _ in edges for op in (source, target)})
    storages = {(source, target): b.storage(f"{source}{target}", size) for source, target, size in edges}
    for op in names:
        b.op(
            op,
            [s for (_, target), s in storages.items() if target == op],
            [s for (source, _), s in storages.items() if source == op],
            after=[names.index(first) for first, second in order_edges if second == op],
        )
    return b.graph()


_DIAMOND = [
    ("A", "B", 10),
    ("B", "C", 20),
    ("B", "D", 30),
    ("D", "E", 40),
    ("E", "F", 50),
    ("C", "F", 60),
    ("F", "G", 10),
]


def olla_simple() -> Graph:
    """OLLA's ``simple``: order ABCDE lives at 10, 60, 50, 70, 40 bytes."""
    return edge_graph("simple", [("A", "B", 10), ("B", "C", 20), ("B", "D", 30), ("D", "E", 40)])


def olla_control_dep() -> Graph:
    """OLLA's ``control_dep``: C before E; order ABCDEFG lives at 10, 60, 110, 130, 150, 120, 10 bytes."""
    return edge_graph("control_dep", _DIAMOND, [("C", "E")])


def olla_diamond() -> Graph:
    """OLLA's ``diamond``: as control_dep without the order edge; the best order peaks at 130 bytes."""
    return edge_graph("diamond", _DIAMOND)


def adjacent_layers(layers: int = 8, size: int = 100) -> Graph:
    """Inference over ``layers`` weights; offloading neighbours leaves no compute to hide the second copy."""
    b = GraphBuilder("adjacent")
    x = b.storage("x", 1, "input")
    for i in range(layers):
        out = b.storage(f"a{i}", 1, "output" if i == layers - 1 else "activation")
        b.op(f"layer:{i}", [x, b.storage(f"w{i}", size, "weight", True)], [out])
        x = out
    return b.graph()


def race() -> Graph:
    """An activation that leaves after its producer and comes back for the backward op, over unrelated work."""
    b = GraphBuilder("race")
    x, a, y, z = b.storage("x", 4, "input"), b.storage("a", 40), b.storage("y", 4, "input"), b.storage("z", 4, "output")
    b.op("produce", [x], [a])
    b.op("other:0", [y], [y])
    b.op("other:1", [y], [y])
    b.op("backward", [a, y], [z], "backward")
    return b.graph()


def random_graph(random: Random, most_ops: int = 14) -> Graph:
    """A chain, a training step, or a tangle of reads, overwrites, in-place ops, several results and order edges."""
    shape = random.choice(["tangle", "tangle", "tangle", "chain", "training"])
    if shape == "chain":
        return chain(random.randint(1, most_ops), random.randint(1, 9))
    if shape == "training":
        return training(random.randint(1, 3), random.randint(1, 9), random.choice([0, 0, 5]))
    b = GraphBuilder("tangle")
    alive: list[int] = []
    for i in range(random.randint(1, 4)):
        tensor_class: TensorClass = random.choice(["weight", "weight", "optimizer_state", "input", "kv_cache"])
        alive.append(b.storage(f"s{i}", random.randint(1, 12), tensor_class, tensor_class != "input"))
    for i in range(random.randint(1, most_ops)):
        reads = random.sample(alive, min(len(alive), random.randint(0, 3)))
        writes: list[int] = []
        for _ in range(random.choice([1, 1, 1, 2])):
            kind = random.choice(["new", "new", "new", "in place", "overwrite"])
            if kind == "new":
                tensor_class = random.choice(["activation", "activation", "activation", "gradient", "output"])
                writes.append(b.storage(f"t{i}_{len(writes)}", random.randint(1, 12), tensor_class))
            elif kind == "in place" and reads:
                writes.append(random.choice(reads))
            else:
                writes.append(random.choice(alive))
        after = [random.randrange(i)] if i and random.random() < 0.15 else []
        b.op(f"op:{i}", reads, writes, workspace=random.choice([0, 0, 0, 3]), after=after)
        alive.extend(w for w in dict.fromkeys(writes) if w not in alive)
    return b.graph()


def graphs(most_ops: int = 14) -> st.SearchStrategy[Graph]:
    """Random small graphs."""
    return st.randoms(use_true_random=False).map(lambda random: random_graph(random, most_ops))
