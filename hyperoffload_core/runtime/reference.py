"""MindSpore's own graph-mode run of a cell, to compare an executor's results with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor
from numpy.typing import NDArray

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
    before = {p.name: p.asnumpy().copy() for p in cell.get_parameters()}
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        results = []
        for batch in batches:
            returned = cell(*(Tensor(np.ascontiguousarray(value)) for value in batch))
            first = returned[0] if isinstance(returned, (tuple, list)) else returned
            results.append(first.asnumpy().copy())
        after = {p.name: p.asnumpy().copy() for p in cell.get_parameters()}
    finally:
        ms.set_context(mode=mode)
        for parameter in cell.get_parameters():
            parameter.set_data(Tensor(before[parameter.name]))
    return Reference(tuple(results), after)


def differences(captured: CapturedModel, values: Mapping[int, Array], reference: Reference) -> tuple[str, ...]:
    """Names of the parameters whose bytes differ between an executor's `values` and the reference."""
    return tuple(
        name
        for storage, name in captured.parameters.items()
        if name in reference.parameters and values[storage].tobytes() != reference.parameters[name].tobytes()
    )
