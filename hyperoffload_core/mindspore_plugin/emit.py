"""A model with a schedule's cache operators as a MindIR file, which `mindspore.load` and `nn.GraphCell` take.

The cache operators are MindSpore's own for Ascend (`mindspore_plugin.ascend`). It has no kernels for them elsewhere: on
CPU the file loads, and MindSpore refuses the first of them when it selects kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindspore.train.mind_ir_pb2 import ModelProto

from hyperoffload_core.capture.mindir import export_mindir
from hyperoffload_core.capture.model import unmaterialised
from hyperoffload_core.capture.primitives import CACHE_OPERATORS
from hyperoffload_core.capture.roles import all_parameters
from hyperoffload_core.errors import UserError
from hyperoffload_core.files import write_whole
from hyperoffload_core.given import read_verified, require_graph
from hyperoffload_core.mindspore_plugin.ascend import plan_ascend
from hyperoffload_core.mindspore_plugin.edits import NewNode
from hyperoffload_core.mindspore_plugin.mindir import apply_edits
from hyperoffload_core.mindspore_plugin.nodes import read_live_graph
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.sizes import format_bytes
from hyperoffload_core.spool import Emitted
from hyperoffload_core.workloads import load_model

SUFFIX = ".mindir"
# A protobuf message ends at 2 GiB, and MindSpore itself keeps at most this much beside a graph in one file.
MOST_WEIGHT_BYTES = 1 << 30


class EmitError(UserError):
    """A model that cannot be written as asked."""


@dataclass(frozen=True)
class Emission:
    """A MindIR and what is in it: cache operators by name, and the rest as in `AscendPlan`."""

    model: ModelProto
    operators: Mapping[str, int]
    stays: Mapping[str, str]
    in_pool: tuple[str, ...]


def emit_file(model: str, schedule_file: Path, output: Path, *, weights: bool) -> Emitted:
    """Write the model of a workload's name or of ``FILE.py:FUNCTION`` with the schedule of a file.

    Raises `UserError` kinds in one sentence: a file that is no valid schedule, one for another model, a schedule that
    graph mode cannot take, parameters that one file cannot hold, a file that cannot be written.
    """
    schedule = read_verified(schedule_file)
    loaded = load_model(model, with_values=weights)
    name = model.rsplit("/", 1)[-1]
    emission = emit_model(loaded.cell, loaded.inputs, schedule, name=name, where=str(schedule_file), weights=weights)
    data = emission.model.SerializeToString()
    write_whole(output, data)
    return Emitted(len(data), weights, dict(emission.operators), dict(emission.stays), emission.in_pool)


def emit_model(
    cell: Any, inputs: Sequence[Any], schedule: Schedule, *, name: str, where: str, weights: bool
) -> Emission:
    """``cell(*inputs)`` with the schedule; errors call the model ``name`` and the schedule ``where``.

    Without ``weights`` the parameters have types and shapes only: whoever loads the file hands them in
    (``GraphCell(graph, params_init=…)``), for MindSpore runs a graph without values on whatever its memory holds.
    """
    if weights:
        _refuse_large(all_parameters(cell))
    with nullcontext() if weights else unmaterialised(cell):
        exported = export_mindir(cell, inputs)
    live = read_live_graph(exported, cell, name)
    require_graph(schedule, live.graph, where)
    planned = plan_ascend(live, schedule)
    model = apply_edits(exported, planned.plan.edits)
    if weights:
        _add_weights(model, all_parameters(cell))
    added = Counter(edit.primitive for edit in planned.plan.edits if isinstance(edit, NewNode))
    operators = {name: added[name] for name in CACHE_OPERATORS if added[name]}
    return Emission(model, operators, planned.stays, planned.in_pool)


def _refuse_large(parameters: Mapping[str, Any]) -> None:
    total = sum(p.nbytes for p in parameters.values())
    if total > MOST_WEIGHT_BYTES:
        raise EmitError(
            f"the model has {format_bytes(total)} of parameters and one MindIR file holds "
            f"{format_bytes(MOST_WEIGHT_BYTES)}; add --no-weights, and hand them to "
            "mindspore.nn.GraphCell(graph, params_init={name: parameter, …})"
        )


def _add_weights(model: ModelProto, parameters: Mapping[str, Any]) -> None:
    prefix = f"{model.graph.name}:"
    for tensor in model.graph.parameter:
        tensor.raw_data = parameters[tensor.name.removeprefix(prefix)].asnumpy().tobytes()
