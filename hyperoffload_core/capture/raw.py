"""A graph as it comes out of MindIR: calls on storages, before names, classes and phases are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from hyperoffload_core.program import TensorView


@dataclass(frozen=True, slots=True)
class State:
    """A monad: which calls with side effects have happened before it."""

    calls: frozenset[int] = frozenset()


@dataclass
class RawStorage:
    """A storage before it has a class; ``source`` is parameter, input, constant or call."""

    bytes: int
    shape: tuple[int, ...]
    dtype: str
    source: str
    name: str = ""
    call: int = -1
    result: int = 0
    value: NDArray[Any] | None = None


@dataclass
class RawCall:
    """A primitive call before names, classes and phases are known.

    ``node`` is its place among MindIR's nodes, constants left out; -1 for a call that MindSpore's graph does not have.
    """

    primitive: str
    domain: str
    attributes: Mapping[str, Any]
    arguments: tuple[Any, ...]
    outputs: list[TensorView]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    in_place: tuple[bool, ...]
    flops: int
    unique_id: str = ""
    forward_id: str = ""
    node: int = -1
    control: set[int] = field(default_factory=set)


@dataclass
class RawGraph:
    """Calls in execution order; ``inputs`` are storages of the cell's inputs in order.

    ``node_results[n]`` is what MindIR's node n gives, constants left out: a view, a constant, a tuple, or a `State`.
    ``cache_operators`` are names of the cache operators the model held already, which are no calls.
    """

    calls: list[RawCall]
    storages: list[RawStorage]
    inputs: list[int]
    results: list[TensorView]
    node_results: list[Any]
    cache_operators: list[str]


def tensors_in(argument: Any) -> list[TensorView]:
    """The views in an argument, in order."""
    if isinstance(argument, TensorView):
        return [argument]
    if isinstance(argument, tuple):
        return [v for a in argument for v in tensors_in(a)]
    return []


def unique(values: Iterable[int]) -> tuple[int, ...]:
    """The values in order of first appearance."""
    return tuple(dict.fromkeys(values))
