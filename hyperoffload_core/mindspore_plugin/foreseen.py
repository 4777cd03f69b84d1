"""What can be said of a cell and a schedule before the first call: the schedule knows the inputs it was made for."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from typing import Any

from mindspore import Tensor, nn, ops

from hyperoffload_core.capture.constants import mindspore_dtype
from hyperoffload_core.capture.errors import CaptureError
from hyperoffload_core.capture.functions import FunctionCell
from hyperoffload_core.ir import Storage
from hyperoffload_core.mindspore_plugin.fitting import AttachError, refuse_other_graph
from hyperoffload_core.mindspore_plugin.nodes import LiveGraph, live_graph
from hyperoffload_core.schedule import Schedule


def refuse_inputs_set(cell: Any, name: str, schedule: Schedule) -> None:
    """Raise `AttachError` where ``set_inputs`` leaves a shape of the cell's inputs open, or gives it other inputs than
    the schedule has."""
    given = cell.get_inputs()
    if any(-1 in t.shape or -2 in t.shape for t in _tensors(given)):
        raise AttachError(
            f"{name} has inputs whose shape set_inputs leaves open, and a schedule is made for one shape; "
            "give set_inputs the shapes of the schedule, or do not call it"
        )
    if given:
        refuse_other_inputs(list(given), f"{name} has", schedule)


def refuse_other_inputs(args: Sequence[Any], who: str, schedule: Schedule) -> None:
    """Raise `AttachError` where inputs that are all tensors are others than those of the schedule."""
    wanted = [_shown(s.dtype, s.shape) for s in _inputs_of(schedule)]
    given = [_shown(_dtype(a), a.shape) for a in args if isinstance(a, Tensor)]
    if len(given) == len(args) and given != wanted:
        raise AttachError(
            f"{who} {_number(given)}, the schedule was made for {_number(wanted)}; "
            "compile the schedule again for this model and these inputs"
        )


def foreseen_graph(cell: Any, schedule: Schedule) -> LiveGraph | None:
    """The cell's graph for inputs like those of the schedule, None where these do not tell how it will be called.

    Raises `AttachError` where it is another graph than the schedule's. Warns where it can only be if inputs of the cell
    are no tensors.
    """
    inputs = _inputs_of(schedule)
    takes = _number_of_inputs(cell)
    if takes is not None and takes < len(inputs):
        raise AttachError(
            f"the cell takes {takes} inputs, the schedule was made for {len(inputs)}; "
            "compile the schedule again for this model and these inputs"
        )
    if takes is not None and takes > len(inputs):
        warnings.warn(
            f"the cell takes {takes} inputs, the schedule was made for {len(inputs)}: unless the others are no "
            "tensors, its first call will refuse it",
            stacklevel=4,
        )
    if takes != len(inputs):
        return None
    try:
        live = live_graph(cell, [_like(s) for s in inputs], schedule.graph.name)
    except CaptureError:
        return None  # the first call says why
    refuse_other_graph(live.graph, schedule.graph.original)
    return live


def holds_for(live: LiveGraph, args: Sequence[Any]) -> bool:
    """Whether a call with these arguments has inputs of the shapes and types of the graph's."""
    storages = [live.graph.storages[s] for s in live.inputs]
    given = [(tuple(a.shape), _dtype(a)) for a in args if isinstance(a, Tensor)]
    return len(given) == len(args) and given == [(s.shape, s.dtype) for s in storages]


def _number_of_inputs(cell: Any) -> int | None:
    """How many inputs the cell takes, None where it may be one or another number; a training step takes what its
    network does."""
    function = cell.function if isinstance(cell, FunctionCell) else cell.construct
    parameters = inspect.signature(function).parameters.values()
    if all(p.kind is p.POSITIONAL_OR_KEYWORD and p.default is p.empty for p in parameters):
        return len(parameters)
    passed_on = all(p.kind is p.VAR_POSITIONAL for p in parameters)
    network = getattr(cell, "network", None)
    return _number_of_inputs(network) if passed_on and isinstance(network, nn.Cell) else None


def _inputs_of(schedule: Schedule) -> list[Storage]:
    return [s for s in schedule.graph.original.storages if s.tensor_class == "input"]


def _shown(dtype: str, shape: Sequence[int]) -> str:
    return f"{dtype}{list(shape)}"


def _number(inputs: Sequence[str]) -> str:
    return f"{len(inputs)} input{'' if len(inputs) == 1 else 's'} ({', '.join(inputs)})" if inputs else "no input"


def _like(storage: Storage) -> Tensor:
    return ops.zeros(storage.shape, mindspore_dtype(storage.dtype))


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).lower()


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, list | tuple):
        return [t for v in value for t in _tensors(v)]
    return [value] if isinstance(value, Tensor) else []
