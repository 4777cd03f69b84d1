"""A cell as MindSpore compiles it, node by node, beside the captured graph that a schedule is made for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mindspore.train.mind_ir_pb2 import AttributeProto

from hyperoffload_core.capture import constants
from hyperoffload_core.capture.mindir import export_mindir
from hyperoffload_core.capture.model import named_graph
from hyperoffload_core.capture.nodes import read_graph
from hyperoffload_core.ir import Graph
from hyperoffload_core.mindspore_plugin.edits import Expected, Ref
from hyperoffload_core.program import TensorView

_NUMBER = re.compile(r"-op\d+$")


@dataclass(frozen=True, slots=True)
class Node:
    """One node of MindSpore's graph. An input is a `Ref`, "" for a constant; ``gives`` is what it results in: a
    `TensorView`, a tuple of views, or something that is no tensor. ``states`` are positions of inputs that are monads,
    the one constant there is of them too."""

    expected: Expected
    inputs: tuple[Ref, ...]
    gives: Any
    states: tuple[int, ...]


@dataclass(frozen=True)
class LiveGraph:
    """MindSpore's graph of a cell: its nodes in MindIR order, and what they are in the captured graph.

    ``op_nodes[op]`` is the node that does the op's work, -1 for an op MindSpore's graph does not have; ``result`` is
    the graph's result; ``parameters[storage]`` and ``inputs[storage]`` are names of what is handed in.
    """

    graph: Graph
    nodes: tuple[Node, ...]
    op_nodes: tuple[int, ...]
    result: Ref
    parameters: Mapping[int, str]
    inputs: Mapping[int, str]


def live_graph(cell: Any, inputs: Sequence[Any], name: str) -> LiveGraph:
    """Compile ``cell(*inputs)`` through MindSpore's front end, as `capture` does, and keep its nodes.

    Raises `CaptureError`.
    """
    return read_live_graph(export_mindir(cell, inputs), cell, name)


def read_live_graph(model: Any, cell: Any, name: str) -> LiveGraph:
    """The nodes of a MindIR ``ModelProto`` that ``cell`` was compiled to. Raises `CaptureError`."""
    raw, graph = named_graph(read_graph(model), cell, name)
    primitives = {p.name: p.op_type for p in model.primitives}
    prefix = f"{model.graph.name}:"
    refs: dict[str, Ref] = {
        value.name: f"p:{value.name.removeprefix(prefix)}" for value in (*model.graph.input, *model.graph.parameter)
    }
    nodes: list[Node] = []
    monads: set[str] = set()
    for node in model.graph.node:
        if any(a.type == AttributeProto.UMONAD for a in node.attribute):
            monads.add(node.output[0])
        if node.op_type == "Constant":
            continue
        refs[node.output[0]] = f"n{len(nodes)}"
        inputs = tuple(refs.get(i, "") for i in node.input)
        primitive = primitives[node.op_type.removeprefix("REF::")]
        expected = Expected(primitive, _NUMBER.sub("", node.domain), _result(node), inputs)
        states = tuple(p for p, i in enumerate(node.input) if i in monads)
        nodes.append(Node(expected, inputs, raw.node_results[len(nodes)], states))
    names = {n: s.name for n, s in enumerate(raw.storages)}
    return LiveGraph(
        graph=graph,
        nodes=tuple(nodes),
        op_nodes=tuple(call.node for call in raw.calls),
        result=refs.get(model.graph.output[0].name, ""),
        parameters={n: names[n] for n, s in enumerate(raw.storages) if s.source == "parameter"},
        inputs={n: names[n] for n in raw.inputs},
    )


def _result(node: Any) -> str:
    """Types and shapes as text, "" where MindIR has none or not only tensors."""
    shape = next((a for a in node.attribute if a.name == "shape"), None)
    return "" if shape is None else _value(shape)


def _value(value: Any) -> str:
    kind = type(value).AttributeType.Name(value.type)
    if kind == "TENSORS":
        return _tensor(value.tensors[0]) if len(value.tensors) == 1 else ""
    if kind == "TUPLE":
        parts = [_value(v) for v in value.values]
        return f"({','.join(parts)})" if all(parts) else ""
    return ""


def _tensor(tensor: Any) -> str:
    return f"{constants.dtype_name(tensor, 'a node')}[{','.join(str(d) for d in tensor.dims)}]"


def is_full_view(gives: Any, graph: Graph) -> bool:
    """Whether a value is the whole of a storage, from its first byte to its last."""
    return (
        isinstance(gives, TensorView)
        and gives.offset_bytes == 0
        and constants.tensor_bytes(gives.shape, gives.dtype) == graph.storages[gives.storage].bytes
    )
