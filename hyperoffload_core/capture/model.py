"""From a cell to a `CapturedModel`: export, read, name, and put graph and program side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
from mindspore import Tensor
from numpy.typing import NDArray

from hyperoffload_core.capture import primitives, roles
from hyperoffload_core.capture.errors import CaptureError
from hyperoffload_core.capture.mindir import export_mindir
from hyperoffload_core.capture.nodes import read_graph
from hyperoffload_core.capture.order import captured_order
from hyperoffload_core.capture.raw import RawGraph
from hyperoffload_core.capture.scopes import layer_scopes
from hyperoffload_core.capture.updates import refuse_lost_updates
from hyperoffload_core.ir import Graph, Op, Phase, Storage, check_graph, dependencies
from hyperoffload_core.program import Call, CapturedModel, Program

_PERSISTENT = ("weight", "optimizer_state", "kv_cache", "constant")


def capture_cell(cell: Any, inputs: Sequence[Any], *, name: str, with_values: bool) -> CapturedModel:
    """See `hyperoffload_core.capture.capture`."""
    with nullcontext() if with_values else unmaterialised(cell):
        model = export_mindir(cell, inputs)
    raw = read_graph(model)
    tensors = _tensor_inputs(inputs, len(raw.inputs))
    if with_values:
        refuse_lost_updates(raw)
    raw, graph = named_graph(raw, cell, name)
    parameters = {n: s.name for n, s in enumerate(raw.storages) if s.source == "parameter"}
    return CapturedModel(
        graph=graph,
        program=_program(raw),
        values=_values(raw, cell, tensors) if with_values else {},
        parameters=parameters,
        inputs=tuple(raw.inputs),
    )


def named_graph(raw: RawGraph, cell: Any, name: str) -> tuple[RawGraph, Graph]:
    """The calls in captured order, and the graph with names, classes and phases that the cell tells.

    Raises `GraphError`.
    """
    optimizers = roles.find_optimizers(cell)
    raw, phases = captured_order(raw, roles.phases(raw, optimizers, roles.inference_phase(cell)))
    graph = _graph(raw, phases, optimizers, name)
    check_graph(graph)
    return raw, graph


@contextmanager
def unmaterialised(cell: Any) -> Iterator[None]:
    """Compiling gives every parameter its memory first; a cell captured without values must not need it."""
    cell.init_parameters_data = lambda *_args, **_kwargs: {}
    try:
        yield
    finally:
        del cell.init_parameters_data


def _graph(raw: RawGraph, phases: list[Phase], optimizers: roles.Optimizers, name: str) -> Graph:
    scopes = layer_scopes(raw)
    classes = roles.classes(raw, phases, optimizers)
    names = roles.op_names(raw, scopes, phases, optimizers)
    storage_names = roles.storage_names(raw, names)
    after = dependencies([(c.reads, c.writes) for c in raw.calls])
    ops = tuple(
        Op(
            id=n,
            name=names[n],
            primitive=call.primitive,
            scope=scopes[n],
            phase=phases[n],
            reads=call.reads,
            writes=call.writes,
            after=tuple(sorted({*after[n], *call.control})),
            flops=call.flops,
            stateful=primitives.has_hidden_state(call.attributes),
        )
        for n, call in enumerate(raw.calls)
    )
    storages = tuple(
        Storage(
            id=n,
            name=storage_names[n],
            bytes=s.bytes,
            tensor_class=classes[n],
            persistent=classes[n] in _PERSISTENT,
            shape=s.shape,
            dtype=s.dtype,
        )
        for n, s in enumerate(raw.storages)
    )
    return Graph(name=name, ops=ops, storages=storages, notes=_notes(raw))


def _notes(raw: RawGraph) -> tuple[str, ...]:
    notes = []
    random = sorted({c.primitive for c in raw.calls if c.attributes.get("side_effect_hidden")})
    if random:
        notes.append(f"{', '.join(random)} draw random numbers: two runs differ, with or without offload")
    if raw.cache_operators:
        count = len(raw.cache_operators)
        notes.append(
            f"the model's own {count} cache operators ({', '.join(sorted(set(raw.cache_operators)))}) are left out: "
            "a schedule says what moves"
        )
    return tuple(notes)


def _program(raw: RawGraph) -> Program:
    read = {s for c in raw.calls for s in c.reads} | {v.storage for v in raw.results}
    calls = tuple(
        Call(
            op=n,
            primitive=c.primitive,
            attributes=c.attributes,
            arguments=c.arguments,
            outputs=tuple(
                o if aliased or o.storage in read else None for o, aliased in zip(c.outputs, c.in_place, strict=True)
            ),
            in_place=c.in_place,
        )
        for n, c in enumerate(raw.calls)
    )
    return Program(calls=calls, results=tuple(raw.results))


def _tensor_inputs(inputs: Sequence[Any], expected: int) -> list[Tensor]:
    """The inputs that may differ from step to step; everything else MindSpore compiles into the graph."""
    for n, value in enumerate(inputs):
        if isinstance(value, list | tuple | dict):
            raise CaptureError(
                f"input {n} is a {type(value).__name__}, whose tensors MindSpore would compile in as constants; "
                "pass each tensor as an input of its own"
            )
    tensors = [i for i in inputs if isinstance(i, Tensor)]
    if len(tensors) != expected:
        raise CaptureError(f"the model takes {expected} tensors, but {len(tensors)} of its inputs are tensors")
    return tensors


def _values(raw: RawGraph, cell: Any, tensors: Sequence[Tensor]) -> dict[int, NDArray[Any]]:
    """Copies of what exists at the start of the first step."""
    values: dict[int, NDArray[Any]] = {}
    parameters = roles.all_parameters(cell)
    for n, storage in enumerate(raw.storages):
        if storage.source == "parameter":
            if storage.name not in parameters:
                raise CaptureError(f"the graph uses the parameter {storage.name!r}, which the cell does not have")
            values[n] = np.array(parameters[storage.name].asnumpy(), order="C", copy=True)
        elif storage.value is not None:
            values[n] = np.ascontiguousarray(storage.value)
    for n, tensor in zip(raw.inputs, tensors, strict=True):
        values[n] = np.array(tensor.asnumpy(), order="C", copy=True)
    return values
