"""Who holds device memory at a time: the storages alive and running workspaces, singly and grouped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from hyperoffload_core.ir import Graph
from hyperoffload_core.recording import Profile


@dataclass(frozen=True, slots=True)
class Alive:
    """One holder of device memory. ``storage`` is None for the workspace of a running op, then ``name`` is the op's.

    ``layer`` is the layer of the first op that accesses the storage (`layer_of`).
    """

    storage: int | None
    name: str
    tensor_class: str
    layer: str
    bytes: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class AliveGroup:
    """Holders together; ``share`` of all bytes alive at that time."""

    name: str
    bytes: int
    count: int
    share: float


def alive_at(profile: Profile, time_ns: int, step: int = 0) -> list[Alive]:
    """Everything on the device at a time of the step, largest first."""
    graph, stays, ops = profile.schedule.graph, profile.lifetimes, profile.ops
    layers = storage_layers(graph)
    rows = np.flatnonzero((stays.step == step) & (stays.start_ns <= time_ns) & (stays.end_ns > time_ns))
    found = [
        Alive(storage, graph.storages[storage].name, graph.storages[storage].tensor_class, layers[storage], *numbers)
        for storage, *numbers in zip(
            *(c[rows].tolist() for c in (stays.storage, stays.bytes, stays.start_ns, stays.end_ns)), strict=True
        )
    ]
    running = np.flatnonzero((ops.step == step) & (ops.start_ns <= time_ns) & (ops.end_ns > time_ns))
    for row in running.tolist():
        op = graph.ops[int(ops.op[row])]
        if op.workspace_bytes:
            times = (int(ops.start_ns[row]), int(ops.end_ns[row]))
            found.append(Alive(None, op.name, "workspace", layer_of(op.scope), op.workspace_bytes, *times))
    return sorted(found, key=lambda a: (-a.bytes, a.name))


def group_alive(alive: Sequence[Alive], by: Literal["class", "layer"]) -> list[AliveGroup]:
    """The holders added up by tensor class or by layer, largest first."""
    whole = sum(a.bytes for a in alive)
    groups: dict[str, list[int]] = {}
    for a in alive:
        groups.setdefault(a.tensor_class if by == "class" else a.layer, []).append(a.bytes)
    result = [AliveGroup(name, sum(sizes), len(sizes), sum(sizes) / whole) for name, sizes in groups.items()]
    return sorted(result, key=lambda g: (-g.bytes, g.name))


@lru_cache(maxsize=8)
def storage_layers(graph: Graph) -> tuple[str, ...]:
    """For each storage the layer of the first op that accesses it, empty when none does."""
    return tuple(layer_of(graph.ops[a[0].op].scope) if a else "" for a in graph.accesses)


@lru_cache(maxsize=65536)
def layer_of(scope: str) -> str:
    """The layer a scope belongs to: ``Gradients/Default/network-Net/blocks-CellList/3-Block/…`` is ``blocks.3``.

    Without a numbered cell in its path a scope's layer is its innermost cell.
    """
    names = [part.rpartition("-")[0] or part for part in scope.split("/")]
    names = [name for name in names if name and name not in ("Default", "Gradients")]
    for position, name in enumerate(names):
        if name.isdecimal():
            return ".".join(names[max(position - 1, 0) : position + 1])
    return names[-1] if names else ""
