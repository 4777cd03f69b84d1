"""What the executor needs beside the graph: for every op the MindSpore primitive call with its arguments.

A `Program` belongs to one `Graph`: ``calls[i].op == i``. It holds no memory; every tensor is a view of a storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.ir import Graph


@dataclass(frozen=True, slots=True)
class TensorView:
    """A contiguous tensor inside a storage; ``dtype`` is MindSpore's lower-case name (``float32``, ``bfloat16``)."""

    storage: int
    shape: tuple[int, ...]
    dtype: str
    offset_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal argument: number, bool, string, None, (nested) tuple of them, or a small numpy array.

    ``dtype`` is set for arrays and for arguments that are a MindSpore type (value None).
    """

    value: Any
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One primitive call.

    An argument is a view, a constant, or a tuple of arguments (tuple inputs such as Concat's). ``outputs[k]`` is where
    result k belongs; None for a result nobody reads. ``in_place[k]`` says that the kernel has already written result k
    to its storage (its argument shares the arena's memory), so nothing is copied.
    """

    op: int
    primitive: str
    attributes: Mapping[str, Any]
    arguments: tuple[Any, ...]
    outputs: tuple[TensorView | None, ...]
    in_place: tuple[bool, ...]


@dataclass(frozen=True)
class Program:
    """Calls in captured order and the graph's results (views of storages of class ``output`` or persistent ones)."""

    calls: tuple[Call, ...]
    results: tuple[TensorView, ...]


@dataclass(frozen=True)
class CapturedModel:
    """A captured cell: its graph, its program, and the values storages start with.

    ``values[storage]`` is a C-contiguous array for each storage that exists at the start of the first step; empty when
    captured without weights (then it can be planned and simulated, not run). ``parameters[storage]`` is the MindSpore
    parameter name, ``inputs`` the storages of the cell's inputs in order.
    """

    graph: Graph
    program: Program
    values: Mapping[int, NDArray[np.generic]]
    parameters: Mapping[int, str]
    inputs: tuple[int, ...]
