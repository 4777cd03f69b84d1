"""Who holds device memory at a time: the storages alive and running workspaces, singly and grouped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from hyperoffload_core.ir import Graph
from hyperoffload_core.recording import Profile

Group = Literal["class", "layer", "op", "name"]
GROUPS: tuple[Group, ...] = ("class", "layer", "op", "name")
BEFORE_THE_STEP = "there before the step"
NO_LAYER = "no layer"


@dataclass(frozen=True, slots=True)
class Alive:
    """One holder of device memory. ``storage`` is None for the workspace of a running op, then ``name`` is the op's.

    ``layer`` is the layer of the first op that accesses the storage (`layer_of`), ``primitive`` the kind of op that
    writes it first (`BEFORE_THE_STEP` for what has a value before the first op), or whose workspace it is.
    """

    storage: int | None
    name: str
    tensor_class: str
    layer: str
    primitive: str
    bytes: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class AliveGroup:
    """Holders together, the largest first; ``share`` of all bytes alive at that time."""

    name: str
    members: tuple[Alive, ...]
    bytes: int
    share: float

    @property
    def count(self) -> int:
        return len(self.members)


def alive_at(profile: Profile, time_ns: int, step: int = 0) -> list[Alive]:
    """Everything on the device at a time of the step, largest first."""
    graph, stays, ops = profile.schedule.graph, profile.lifetimes, profile.ops
    layers, makers = storage_layers(graph), storage_makers(graph)
    rows = np.flatnonzero((stays.step == step) & (stays.start_ns <= time_ns) & (stays.end_ns > time_ns))
    found = [
        Alive(
            storage,
            graph.storages[storage].name,
            graph.storages[storage].tensor_class,
            layers[storage],
            makers[storage],
            *numbers,
        )
        for storage, *numbers in zip(
            *(c[rows].tolist() for c in (stays.storage, stays.bytes, stays.start_ns, stays.end_ns)), strict=True
        )
    ]
    running = np.flatnonzero((ops.step == step) & (ops.start_ns <= time_ns) & (ops.end_ns > time_ns))
    for row in running.tolist():
        op = graph.ops[int(ops.op[row])]
        if op.workspace_bytes:
            numbers = (op.workspace_bytes, int(ops.start_ns[row]), int(ops.end_ns[row]))
            found.append(Alive(None, op.name, "workspace", layer_of(op.scope), op.primitive, *numbers))
    return sorted(found, key=lambda a: (-a.bytes, a.name))


def group_alive(alive: Sequence[Alive], by: Group) -> list[AliveGroup]:
    """The holders added up by tensor class, by layer, by the kind of op that makes them, or by name without its numbers
    (``blocks.*.attention``); the largest group first, within each in the given order."""
    whole = sum(a.bytes for a in alive)
    groups: dict[str, list[Alive]] = {}
    for a in alive:
        groups.setdefault(_group(a, by), []).append(a)
    sizes = {name: sum(a.bytes for a in members) for name, members in groups.items()}
    found = [AliveGroup(name, tuple(members), sizes[name], sizes[name] / whole) for name, members in groups.items()]
    return sorted(found, key=lambda g: (-g.bytes, _natural(g.name)))


def _natural(name: str) -> list[tuple[int, str]]:
    """Sorts ``blocks.2`` before ``blocks.10``."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", name)]


def _group(alive: Alive, by: Group) -> str:
    if by == "class":
        return alive.tensor_class
    if by == "layer":
        return alive.layer or NO_LAYER
    return alive.primitive if by == "op" else unnumbered(alive.name)


def unnumbered(name: str) -> str:
    """A name with ``*`` in place of each number in its path, so that the same thing in every layer has one name."""
    return re.sub(r"(?<![A-Za-z0-9])[0-9]+(?![A-Za-z0-9])", "*", name)


@lru_cache(maxsize=8)
def storage_layers(graph: Graph) -> tuple[str, ...]:
    """For each storage the layer of the first op that accesses it, empty when none does."""
    return tuple(layer_of(graph.ops[a[0].op].scope) if a else "" for a in graph.accesses)


@lru_cache(maxsize=8)
def storage_makers(graph: Graph) -> tuple[str, ...]:
    """For each storage the kind of op that writes it first, or `BEFORE_THE_STEP`."""
    return tuple(
        BEFORE_THE_STEP
        if graph.exists_at_start(storage)
        else next((graph.ops[a.op].primitive for a in accesses if a.writes), BEFORE_THE_STEP)
        for storage, accesses in enumerate(graph.accesses)
    )


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
