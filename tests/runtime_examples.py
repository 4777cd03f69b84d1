"""A hand-built training step of six real MindSpore ops and hand-written schedules of it, for the runtime's tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph, Op, Storage, check_graph, dependencies
from hyperoffload_core.program import Call, CapturedModel, Constant, Program, TensorView
from hyperoffload_core.schedule import Metrics, OpTime, Residency, Schedule, Transfer

X, W1, H, A, W2, Y, LOSS, G, M, V = range(10)
_SHAPES = {X: (64, 32), W1: (32, 48), H: (64, 48), A: (64, 48), W2: (48, 16), Y: (64, 16), LOSS: (), G: (48, 16)}
_SHAPES |= {M: (48, 16), V: (48, 16)}
_CLASSES = ("input", "weight", "activation", "activation", "weight", "activation", "output", "gradient")
_CLASSES += ("optimizer_state", "optimizer_state")
_NAMES = ("x", "w1", "h", "a", "w2", "y", "loss", "g", "m", "v")
_OPS = (
    ("MatMul", (X, W1), (H,)),
    ("ReLU", (H,), (A,)),
    ("MatMul", (A, W2), (Y,)),
    ("ReduceSum", (Y,), (LOSS,)),
    ("MatMul", (A, Y), (G,)),
    ("AdamWeightDecay", (W2, M, V, G), (W2, M, V)),
)
LINK = Link(bytes_per_s=1_000_000_000, latency_ns=1000)
HARDWARE = Hardware("test", "test", 1 << 30, LINK, LINK, "full")

# Planned start of each op (each takes 1000 ns) and end of the step.
OP_STARTS = (0, 2000, 4000, 6000, 10000, 12000)
STEP_NS = 16000


def view(storage: int) -> TensorView:
    return TensorView(storage, _SHAPES[storage], "float32")


def bytes_of(storage: int) -> int:
    return 4 * int(np.prod(_SHAPES[storage]))


def captured_model() -> CapturedModel:
    """y = relu(x w1) w2, loss = sum(y), and AdamW on w2 with the gradient a^T y."""
    storages = tuple(
        Storage(i, _NAMES[i], bytes_of(i), _CLASSES[i], i in (W1, W2, M, V), _SHAPES[i], "float32") for i in range(10)
    )
    after = dependencies([(reads, writes) for _, reads, writes in _OPS])
    phases = ("forward",) * 4 + ("backward", "optimizer")
    ops = tuple(
        Op(i, f"{primitive}-{i}", primitive, "Default", phases[i], reads, writes, after[i])
        for i, (primitive, reads, writes) in enumerate(_OPS)
    )
    graph = Graph("hand-built", ops, storages)
    check_graph(graph)
    no, yes = Constant(False), Constant(True)
    rates = tuple(Constant(r) for r in (1e-2, 0.9, 0.999, 1e-8, 0.01))
    arguments = (
        (view(X), view(W1), no, no),
        (view(H),),
        (view(A), view(W2), no, no),
        (view(Y), Constant((0, 1)), no, no),
        (view(A), view(Y), yes, no),
        (view(W2), view(M), view(V), *rates, view(G), no),
    )
    calls = tuple(
        Call(i, primitive, {}, arguments[i], tuple(view(w) for w in writes), (i == 5,) * len(writes))
        for i, (primitive, _, writes) in enumerate(_OPS)
    )
    random = np.random.default_rng(7)
    values = {i: random.standard_normal(_SHAPES[i]).astype(np.float32) for i in (W1, W2)}
    values |= {i: np.zeros(_SHAPES[i], np.float32) for i in (M, V)}
    parameters = {i: _NAMES[i] for i in (W1, W2, M, V)}
    return CapturedModel(graph, Program(calls, (view(LOSS), view(W2))), values, parameters, (X,))


def batches(count: int) -> list[tuple[np.ndarray]]:
    random = np.random.default_rng(11)
    return [(random.standard_normal(_SHAPES[X]).astype(np.float32),) for _ in range(count)]


def schedule(
    residencies: Sequence[Residency],
    transfers: Sequence[Transfer] = (),
    waits: dict[int, tuple[int, ...]] | None = None,
    in_pool: Sequence[int] = (),
) -> Schedule:
    graph = captured_model().graph
    times = tuple(OpTime(i, s, s + 1000, (waits or {}).get(i, ())) for i, s in enumerate(OP_STARTS))
    reserved = max(r.offset + graph.storages[r.storage].bytes for r in residencies)
    moved = {k: sum(t.bytes for t in transfers if t.kind == k) for k in ("store", "prefetch")}
    return Schedule(
        graph=graph,
        durations_ns=(1000,) * 6,
        duration_source="hand-written",
        hardware=HARDWARE,
        policy={},
        strategy="by-hand",
        memory_limit_bytes=reserved,
        order=tuple(range(6)),
        op_times=times,
        transfers=tuple(transfers),
        residencies=tuple(residencies),
        homes=tuple("pool" if i in in_pool else "device" for i in range(10)),
        metrics=Metrics(STEP_NS, 6000, reserved, reserved, moved["store"], moved["prefetch"], 0, 10000, 6000),
    )


def offsets() -> dict[int, int]:
    """Every storage at an address of its own, 64-byte aligned."""
    result, at = {}, 0
    for storage in range(10):
        result[storage] = at
        at += -(-bytes_of(storage) // 64) * 64
    return result


_LIVE = {X: (0, 1000), H: (0, 3000), A: (2000, 11000), Y: (4000, 11000), LOSS: (6000, STEP_NS), G: (10000, 13000)}
_LIVE |= dict.fromkeys((W1, W2, M, V), (0, STEP_NS))


def everything_on_device() -> Schedule:
    at = offsets()
    return schedule([Residency(s, at[s], *_LIVE[s]) for s in range(10)])


def offloaded(half_duplex: bool = False) -> Schedule:
    """The activation leaves and comes back to another address; optimizer states live in the pool; g takes the place
    that a and x had."""
    fixed = [Residency(W1, 0, 0, STEP_NS), Residency(W2, 6144, 0, STEP_NS), Residency(LOSS, 9216, *_LIVE[LOSS])]
    states = [Residency(M, 9280, 0, 14000), Residency(V, 12352, 1000, 15000)]
    first, second = 15424, 15424 + 12288
    moving = [
        Residency(X, first, 0, 1000),
        Residency(H, second, 0, 3000),
        Residency(A, first, 2000, 6000),
        Residency(Y, second, 4000, 11000),
        Residency(A, second + 4096, 8000, 11000),
        Residency(G, first, 10000, 13000),
    ]
    size = bytes_of(A)
    state = bytes_of(M)
    transfers = [
        Transfer(0, "store", A, size, 5000, 6000, after_ops=(1,)),
        Transfer(1, "prefetch", A, size, 8000, 9000, after_ops=(1,), after_transfers=(0,)),
        Transfer(2, "prefetch", M, state, 0, 1000),
        Transfer(3, "store", M, state, 13000, 14000, after_ops=(5,)),
        Transfer(4, "prefetch", V, state, 1000, 2000),
        Transfer(5, "store", V, state, 14000, 15000, after_ops=(5,)),
    ]
    waits = {4: (0, 1), 5: (2, 4)}
    result = schedule([*fixed, *states, *moving], transfers, waits, in_pool=(M, V))
    return replace(result, hardware=replace(HARDWARE, duplex="half")) if half_duplex else result
