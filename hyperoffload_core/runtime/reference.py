"""MindSpore's own graph-mode run of a cell, to compare an executor's results with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor
from numpy.typing import NDArray

from hyperoffload_core.capture.mindir import graph_mode
from hyperoffload_core.capture.roles import all_parameters
from hyperoffload_core.program import CapturedModel

Array = NDArray[Any]


@dataclass(frozen=True)
class Reference:
    """Results of every step (first result if the cell returns several) and every parameter after the last, by name."""

    results: tuple[Array, ...]
    parameters: Mapping[str, Array]


def run_reference(cell: ms.nn.Cell, batches: Sequence[Sequence[Array]]) -> Reference:
    """Run the cell in graph mode on each batch in turn; its parameters are put back to what they were afterwards.

    The cell is used as it is (training or not), like capture uses it. Raises whatever MindSpore raises.
    """
    before = parameter_values(cell)
    try:
        with graph_mode():
            results = tuple(first_value(cell(*tensors_of(batch))) for batch in batches)
        return Reference(results, parameter_values(cell))
    finally:
        put_back(cell, before)


def tensors_of(batch: Sequence[Array]) -> list[Tensor]:
    return [Tensor(np.ascontiguousarray(value)) for value in batch]


def first_value(returned: Any) -> Array:
    """A copy of what a cell returned, or of the first of several results."""
    first = returned[0] if isinstance(returned, (tuple, list)) else returned
    return first.asnumpy().copy()


def parameter_values(cell: Any) -> dict[str, Array]:
    """A copy of every parameter by name."""
    return {name: parameter.asnumpy().copy() for name, parameter in all_parameters(cell).items()}


def put_back(cell: Any, values: Mapping[str, Array]) -> None:
    """Give the parameters the values of `parameter_values` again."""
    for name, parameter in all_parameters(cell).items():
        parameter.set_data(Tensor(values[name]))


def differences(captured: CapturedModel, values: Mapping[int, Array], reference: Reference) -> tuple[str, ...]:
    """Names of the parameters whose bytes differ between an executor's `values` and the reference."""
    return tuple(
        name
        for storage, name in captured.parameters.items()
        if name in reference.parameters and values[storage].tobytes() != reference.parameters[name].tobytes()
    )
