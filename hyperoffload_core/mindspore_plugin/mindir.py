"""Edits of a MindSpore graph made in its MindIR, the file `mindspore.load` reads.

MindIR writes a graph's nodes in an order in which each comes after its inputs, constants among them; a node names its
primitive, its inputs by the names of their outputs, and the type and shape of its result in an attribute ``shape``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mindspore.train.mind_ir_pb2 import AttributeProto, ModelProto, NodeProto, PrimitiveProto, TensorProto

from hyperoffload_core.capture.primitives import CACHE_OPERATORS
from hyperoffload_core.mindspore_plugin.edits import TOKEN, Edit, NewNode, Ref, SetInput

_CONSTANT = "Constant"
_REFERENCE = "REF::"
_NEW = "hyperoffload"
# MindSpore marks the primitives that its automatic monads must keep in order, and those a Depend must not outlive.
_ATTRIBUTES: Mapping[str, tuple[str, int]] = {
    "Depend": ("side_effect_propagate", AttributeProto.INT64),
    **dict.fromkeys(CACHE_OPERATORS, ("side_effect_mem", AttributeProto.BOOL)),
}
# What MindSpore calls its operators proper, as opposed to what only ties a graph together.
_STRUCTURE = frozenset(("Depend", "Load", "UpdateState", "MakeTuple", "TupleGetItem"))


class EditError(ValueError):
    """An edit that does not fit the graph: a fault of whoever planned it."""


def apply_edits(model: ModelProto, edits: Iterable[Edit]) -> ModelProto:
    """The model with the edits made; the given one stays as it is.

    Raises `EditError` for a reference to nothing, a position a node does not have, an id that is taken, and for edits
    after which a node waits for itself.
    """
    edited = _Edited(model)
    for edit in edits:
        if isinstance(edit, NewNode):
            edited.add(edit)
        else:
            edited.set_input(edit)
    return edited.result()


class _Edited:
    def __init__(self, model: ModelProto) -> None:
        self.model = ModelProto()
        self.model.CopyFrom(model)
        self.graph = self.model.graph
        self.calls = [n for n in self.graph.node if n.op_type != _CONSTANT]
        self.declared: dict[str, tuple[str, Any]] = {}
        for value in self.graph.input:
            self._declare(value.name, value.tensor[0] if value.tensor else None)
        for tensor in self.graph.parameter:
            self._declare(tensor.name, tensor)
        self.new: dict[str, NodeProto] = {}
        self.constants: dict[str, NodeProto] = {}
        self.primitives: dict[str, str] = {}

    def _declare(self, name: str, tensor: Any) -> None:
        self.declared[name.removeprefix(f"{self.graph.name}:")] = (name, tensor)

    def add(self, edit: NewNode) -> None:
        if f"x{edit.id}" in self.new:
            raise EditError(f"there are two new nodes {edit.id}")
        inputs = list(edit.inputs)
        copied, _, original = edit.primitive.partition(" ")
        if copied == "clone":
            kept = self._node(original)
            node = NodeProto(op_type=kept.op_type, node_attr=kept.node_attr)
            if len(inputs) > len(kept.input):
                raise EditError(f"a clone of {original} has {len(inputs)} inputs instead of {len(kept.input)}")
            names = [self._name(ref) if ref else kept.input[n] for n, ref in enumerate(inputs)]
            primitive = kept.op_type.removeprefix(_REFERENCE).partition(":")[0]
        else:
            node = NodeProto(op_type=_REFERENCE + self._primitive(edit.primitive))
            names = [self._name(ref) for ref in inputs]
            primitive = edit.primitive
        node.input.extend(names)
        node.name = f"{self.graph.name}:{_NEW}_{edit.id}"
        node.output.append(node.name)
        node.attribute.append(self._result(edit.result))
        node.domain = f"{edit.scope or 'Default'}/{primitive}-op{_NEW}{edit.id}"
        self.new[f"x{edit.id}"] = node

    def set_input(self, edit: SetInput) -> None:
        name = self._name(edit.ref)
        if edit.node == len(self.calls):
            if edit.position != 0 or len(self.graph.output) != 1:
                raise EditError(f"a graph returns one value, at position 0 and not {edit.position}")
            self.graph.output[0].name = name
            return
        inputs = self._node(f"n{edit.node}").input
        if not 0 <= edit.position < len(inputs):
            raise EditError(f"node {edit.node} has {len(inputs)} inputs and none at position {edit.position}")
        inputs[edit.position] = name

    def result(self) -> ModelProto:
        nodes = [*self.constants.values(), *self.graph.node, *self.new.values()]
        ordered = [n.SerializeToString() for n in _in_order(nodes)]
        del self.graph.node[:]
        self.graph.node.extend(map(NodeProto.FromString, ordered))
        return self.model

    def _node(self, ref: Ref) -> NodeProto:
        if ref in self.new:
            return self.new[ref]
        if ref[:1] == "n" and ref[1:].isdecimal() and int(ref[1:]) < len(self.calls):
            return self.calls[int(ref[1:])]
        raise EditError(f"the graph has no node {ref!r}")

    def _name(self, ref: Ref) -> str:
        """The name under which the value of a reference is an input of other nodes."""
        if ref.startswith("p:"):
            if ref[2:] not in self.declared:
                raise EditError(f"the graph has no parameter or input {ref[2:]!r}")
            return self.declared[ref[2:]][0]
        if ref in ("U", "b0", "b1") or (ref[:1] == "i" and ref[1:].removeprefix("-").isdecimal()):
            if ref not in self.constants:
                self.constants[ref] = _constant(ref)
            return str(self.constants[ref].output[0])
        return str(self._node(ref).output[0])

    def _result(self, result: str) -> AttributeProto:
        if result == "U":
            return AttributeProto(name="shape", type=AttributeProto.UMONAD)
        shape = AttributeProto(name="shape", type=AttributeProto.TENSORS)
        if result == TOKEN:
            shape.tensors.append(TensorProto(dims=[1], data_type=TensorProto.INT64))
            return shape
        if result.startswith("like p:"):
            tensor = self.declared.get(result.removeprefix("like p:"), ("", None))[1]
            if tensor is None:
                raise EditError(f"{result!r}: the graph has no such tensor")
            shape.tensors.append(TensorProto(dims=tensor.dims, data_type=tensor.data_type, ref_key=tensor.ref_key))
            return shape
        if result.startswith("like "):
            found = next((a for a in self._node(result.removeprefix("like ")).attribute if a.name == "shape"), None)
            if found is not None:
                return found
        raise EditError(f"the result {result!r} of a new node says no type and shape")

    def _primitive(self, name: str) -> str:
        """The primitive's entry in the model, made when there is none without attributes of its own."""
        if name not in self.primitives:
            entry = PrimitiveProto(name=f"{name}:{_NEW}", op_type=name)
            entry.prim_type = PrimitiveProto.PRIMITIVE if name in _STRUCTURE else PrimitiveProto.PRIMITIVE_FUNCTION
            if name in _ATTRIBUTES:
                attribute, kind = _ATTRIBUTES[name]
                entry.attribute.append(AttributeProto(name=attribute, type=kind, i=1))
            self.model.primitives.append(entry)
            self.primitives[name] = entry.name
        return self.primitives[name]


def _constant(ref: Ref) -> NodeProto:
    name = f"{_NEW}${ref}"
    node = NodeProto(op_type=_CONSTANT, name=name, output=[name])
    if ref == "U":
        node.attribute.append(AttributeProto(name="value", type=AttributeProto.UMONAD))
    else:
        kind = AttributeProto.BOOL if ref[0] == "b" else AttributeProto.INT64
        node.attribute.append(AttributeProto(name="value", type=kind, i=int(ref[1:])))
    return node


def _in_order(nodes: list[Any]) -> list[Any]:
    """The nodes with every one after those it takes, else in their order."""
    by_output = {node.output[0]: node for node in nodes}
    ordered: list[Any] = []
    begun: set[str] = set()
    done: set[str] = set()
    for root in nodes:
        waiting = [root]
        while waiting:
            node = waiting[-1]
            name = node.output[0]
            if name in done:
                waiting.pop()
                continue
            missing = [by_output[i] for i in node.input if i in by_output and i not in done]
            if not missing:
                waiting.pop()
                done.add(name)
                ordered.append(node)
            elif name in begun:
                raise EditError(f"after these edits {node.domain or name} waits for itself")
            else:
                begun.add(name)
                waiting.extend(reversed(missing))
    return ordered
