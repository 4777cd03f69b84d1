"""A training step built by hand, with transfers that hide and transfers that block, as real contract values."""

from __future__ import annotations

import numpy as np

from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.hardware.description import transfer_ns
from hyperoffload_core.ir import Graph, Op, Storage, check_graph, dependencies
from hyperoffload_core.metrics import exposed_ns, step_metrics
from hyperoffload_core.recording import OpEvents, Profile, ProfileKind, StepNumbers, StorageLifetimes, TransferEvents
from hyperoffload_core.schedule import OpTime, Residency, Schedule, Transfer
from hyperoffload_core.simulator import event_times

MIB = 1024 * 1024
HARDWARE = Hardware("example", "Example device", 4096 * MIB, Link(2 * 10**9, 20_000), Link(2 * 10**9, 20_000), "full")


def example_graph(layers: int = 8) -> Graph:
    """Forward, backward and optimizer of ``layers`` layers: one op each."""
    storages: list[Storage] = []

    def storage(name: str, size: int, tensor_class: str, persistent: bool = False) -> int:
        storages.append(Storage(len(storages), name, size, tensor_class, persistent, (size // 4,), "float32"))  # type: ignore[arg-type]
        return len(storages) - 1

    tokens = storage("tokens", MIB, "input")
    weights = [storage(f"layer{i}.weight", 24 * MIB, "weight", True) for i in range(layers)]
    states = [storage(f"layer{i}.adam", 48 * MIB, "optimizer_state", True) for i in range(layers)]
    hidden = [storage(f"layer{i}.hidden", 40 * MIB, "activation") for i in range(layers)]
    gradients = [storage(f"layer{i}.gradient", 24 * MIB, "gradient") for i in range(layers)]
    loss = storage("loss", 4, "output")
    calls: list[tuple[str, str, str, str, tuple[int, ...], tuple[int, ...]]] = []
    for i in range(layers):
        source = tokens if i == 0 else hidden[i - 1]
        calls.append((f"forward{i}", "MatMul", f"Default/{i}-Block", "forward", (source, weights[i]), (hidden[i],)))
    calls.append(("loss", "SoftmaxCrossEntropy", "Default/loss", "forward", (hidden[-1],), (loss,)))
    for i in reversed(range(layers)):
        reads = (hidden[i], weights[i])
        calls.append((f"backward{i}", "MatMulGrad", f"Gradients/{i}-Block", "backward", reads, (gradients[i],)))
    for i in range(layers):
        reads = (weights[i], states[i], gradients[i])
        calls.append((f"adam{i}", "AdamW", "Default/optimizer", "optimizer", reads, (weights[i], states[i])))
    after = dependencies([(reads, writes) for *_, reads, writes in calls])
    ops = tuple(
        Op(i, name, primitive, scope, phase, reads, writes, after[i], workspace_bytes=4 * MIB)  # type: ignore[arg-type]
        for i, (name, primitive, scope, phase, reads, writes) in enumerate(calls)
    )
    graph = Graph("example", ops, tuple(storages))
    check_graph(graph)
    return graph


def example_schedule(layers: int = 8, op_ns: int = 12_000_000) -> Schedule:
    """Activations leave after their forward op and come back before their backward op, the last two layers' stay."""
    graph = example_graph(layers)
    hidden = {i: s.id for i in range(layers) for s in graph.storages if s.name == f"layer{i}.hidden"}
    forward = {i: i for i in range(layers)}
    backward = {i: layers + 1 + (layers - 1 - i) for i in range(layers)}
    order = tuple(range(len(graph.ops)))
    moved = list(range(layers - 2))
    stores = {i: n for n, i in enumerate(moved)}
    fetches = {i: len(moved) + n for n, i in enumerate(reversed(moved))}
    # A store leaves once the next layer has read it; a prefetch starts two backward ops ahead.
    after_ops: list[tuple[int, ...]] = [(forward[i + 1],) for i in moved]
    after_ops += [(max(0, backward[i] - 2),) for i in reversed(moved)]
    after_transfers: list[tuple[int, ...]] = [() for _ in moved] + [(stores[i],) for i in reversed(moved)]
    waits: list[tuple[int, ...]] = [() for _ in graph.ops]
    for i in moved:
        waits[backward[i]] = (fetches[i],)
    storage_of = [hidden[i] for i in moved] + [hidden[i] for i in reversed(moved)]
    size = graph.storages[hidden[0]].bytes
    times = event_times(
        order,
        waits,
        (tuple(stores.values()), tuple(fetches[i] for i in reversed(moved))),
        after_ops,
        after_transfers,
        [op_ns] * len(order),
        [transfer_ns(size, HARDWARE.link_out)] * (2 * len(moved)),
    )
    transfers = tuple(
        Transfer(
            t,
            "store" if t < len(moved) else "prefetch",
            storage_of[t],
            size,
            int(times.transfer_start[t]),
            int(times.transfer_end[t]),
            after_ops[t],
            after_transfers[t],
        )
        for t in range(2 * len(moved))
    )
    op_times = tuple(OpTime(o, int(times.op_start[o]), int(times.op_end[o]), waits[o]) for o in order)
    residencies = _residencies(graph, op_times, transfers)
    metrics = step_metrics(
        [s.bytes for s in graph.storages], [o.workspace_bytes for o in graph.ops], op_times, transfers, residencies, 0
    )
    return Schedule(
        graph=graph,
        durations_ns=(op_ns,) * len(order),
        duration_source="made up for tests",
        hardware=HARDWARE,
        policy={"name": "example", "memory_limit": "900MiB", "strategy": "reactive"},
        strategy="reactive",
        memory_limit_bytes=900 * MIB,
        order=order,
        op_times=op_times,
        transfers=transfers,
        residencies=residencies,
        homes=tuple("device" for _ in graph.storages),
        metrics=metrics,
    )


def _residencies(graph: Graph, op_times: tuple[OpTime, ...], transfers: tuple[Transfer, ...]) -> tuple[Residency, ...]:
    """Stays at addresses of their own (one storage, one address)."""
    end = max(max(t.end_ns for t in op_times), max((t.end_ns for t in transfers), default=0))
    offsets = np.concatenate([[0], np.cumsum([s.bytes for s in graph.storages])]).tolist()
    result: list[Residency] = []
    for s in graph.storages:
        used = [op_times[a.op] for a in graph.accesses[s.id]]
        start = 0 if graph.exists_at_start(s.id) else used[0].start_ns
        stop = end if graph.lives_to_end(s.id) else used[-1].end_ns
        store = next((t for t in transfers if t.storage == s.id and t.kind == "store"), None)
        fetch = next((t for t in transfers if t.storage == s.id and t.kind == "prefetch"), None)
        if store and fetch:
            result += [
                Residency(s.id, offsets[s.id], start, store.end_ns),
                Residency(s.id, offsets[s.id], fetch.start_ns, stop),
            ]
        else:
            result.append(Residency(s.id, offsets[s.id], start, stop))
    return tuple(result)


def example_profile(
    schedule: Schedule, kind: ProfileKind = "predicted", steps: int = 1, stretch: float = 1.0
) -> Profile:
    """The schedule's own times, each step scaled by ``stretch`` and a little more than the one before."""
    sizes = {s.id: s.bytes for s in schedule.graph.storages}
    columns: dict[str, list[list[int]]] = {"ops": [], "transfers": [], "lifetimes": [], "steps": []}
    for step in range(steps):
        factor = stretch * (1 + 0.03 * step)

        def at(time_ns: int, factor: float = factor) -> int:
            return int(time_ns * factor)

        columns["ops"] += [[step, t.op, at(t.start_ns), at(t.end_ns), 0] for t in schedule.op_times]
        columns["transfers"] += [
            [step, t.id, t.storage, int(t.kind == "prefetch"), t.bytes, at(t.start_ns), at(t.end_ns)]
            for t in schedule.transfers
        ]
        columns["lifetimes"] += [
            [step, r.storage, r.offset, sizes[r.storage], at(r.start_ns), at(r.end_ns)] for r in schedule.residencies
        ]
        m = schedule.metrics
        exposed = exposed_ns(
            [at(t.start_ns) for t in schedule.op_times],
            [at(t.end_ns) for t in schedule.op_times],
            [at(t.start_ns) for t in schedule.transfers],
            [at(t.end_ns) for t in schedule.transfers],
        )
        times = [at(m.step_ns), at(m.compute_ns), exposed, at(m.step_ns) - at(m.compute_ns)]
        columns["steps"].append([*times, m.peak_live_bytes, m.bytes_out, m.bytes_in])

    def table(name: str, width: int) -> list[np.ndarray]:
        return list(np.array(columns[name], dtype=np.int64).reshape(-1, width).T)

    return Profile(
        kind=kind,
        schedule=schedule,
        conditions="made up for tests",
        ops=OpEvents(*table("ops", 5)),
        transfers=TransferEvents(*table("transfers", 7)),
        lifetimes=StorageLifetimes(*table("lifetimes", 6)),
        steps=StepNumbers(*table("steps", 7)),
    )
