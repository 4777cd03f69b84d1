"""MindIR nodes as primitive calls on storages.

Load, Depend, UpdateState, MakeTuple, TupleGetItem, Reshape and its like are no ops: they become views of what they pass
on, and so do the cache operators a model may hold already. Everything else is a call. A result of an in-place op is a
view of the storage it wrote.

MindSpore strings every op with a memory side effect on one chain of UpdateState nodes, so an optimizer's updates follow
each other in one line. That chain is not kept: what it guards is who reads and writes which parameter, and the precise
dependencies per storage (`ir.dependencies`) guard just that. An update may then move to right after its gradient, which
is what makes offloading optimizer states worthwhile. The chain is still used once, to find readers that must see the
value from before an update (`_stale_reads`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyperoffload_core.capture import constants, hazards, primitives, views
from hyperoffload_core.capture.errors import CaptureError
from hyperoffload_core.capture.raw import RawCall, RawGraph, RawStorage, State, tensors_in, unique
from hyperoffload_core.program import Constant, TensorView

LARGE_CONSTANT_BYTES = 1024
_MONADS = ("UMONAD", "IOMONAD")
_PASS_ON = ("Load", "Depend", "StopGradient")
_SHOW_ARGUMENT = primitives.RESHAPES.union(
    ("Depend", "StopGradient", "TupleGetItem", "ListGetItem"), primitives.CACHE_OPERATORS
)


def read_graph(model: Any) -> RawGraph:
    """Walk the nodes in MindIR order. Raises `CaptureError` for what cannot be executed op by op."""
    return _Reader(model).read()


class _Reader:
    """Values by MindIR name: a `TensorView`, a `Constant`, a tuple of values, or a `State`."""

    def __init__(self, model: Any):
        self.graph = model.graph
        self.primitives = {p.name: p for p in model.primitives}
        self.attributes: dict[str, dict[str, Any]] = {}
        self.values: dict[str, Any] = {}
        self.storages: list[RawStorage] = []
        self.calls: list[RawCall] = []
        self.inputs: list[int] = []
        self.node_results: list[Any] = []
        self.cache_operators: list[str] = []
        self.large_constants: dict[tuple[bytes, tuple[int, ...], str], int] = {}
        # Values a Depend held back until other calls have run: name -> those calls.
        self.held_back: dict[str, set[int]] = {}
        self.loaded: dict[str, State] = {}
        # Calls whose updates a result of an in-place call shows, its reshapes too: what `loaded` is for parameters.
        self.shown: dict[str, State] = {}
        self.reads_with_state: list[tuple[int, int, State]] = []
        self.copied_views: dict[int, int] = {}
        self.hidden_state_call: int | None = None

    def read(self) -> RawGraph:
        prefix = f"{self.graph.name}:"
        for value in self.graph.input:
            self._declare(
                value.name, value.tensor[0] if value.tensor else None, value.name.removeprefix(prefix), "input"
            )
        for tensor in self.graph.parameter:
            self._declare(tensor.name, tensor, tensor.ref_key or tensor.name.removeprefix(prefix), "parameter")
        for node in self.graph.node:
            self._node(node)
        results: list[TensorView] = []
        for output in self.graph.output:
            self._collect_results(self._value(output.name), results)
        raw = RawGraph(self.calls, self.storages, self.inputs, results, self.node_results, self.cache_operators)
        hazards.refuse_writes_beside_copies(raw, self.copied_views)
        hazards.refuse_stale_reads(raw, self.reads_with_state)
        return raw

    def _declare(self, key: str, tensor: Any, name: str, source: str) -> None:
        if tensor is None:
            raise CaptureError(f"the input {name!r} is no tensor; capture needs inputs that are tensors")
        where = f"{source} {name!r}"
        shape, dtype = constants.static_shape(tensor, where), constants.dtype_name(tensor, where)
        view = self._new_storage(shape, dtype, source, name=name)
        if source == "input":
            self.inputs.append(view.storage)
        self.values[key] = view

    def _new_storage(self, shape: tuple[int, ...], dtype: str, source: str, **more: Any) -> TensorView:
        # A tensor without elements still has an address: the least a storage can be is one byte.
        size = max(1, constants.tensor_bytes(shape, dtype))
        self.storages.append(RawStorage(size, shape, dtype, source, **more))
        return TensorView(len(self.storages) - 1, shape, dtype)

    def _value(self, name: str) -> Any:
        if name not in self.values:
            raise CaptureError(
                "control flow that depends on tensor values cannot be captured: "
                f"{self.graph.name.split('_construct')[0].rpartition('_')[2]} keeps a branch or loop that MindSpore "
                "could not decide while compiling"
            )
        return self.values[name]

    def _node(self, node: Any) -> None:
        output = node.output[0]
        if node.op_type == "Constant":
            self.values[output] = self._constant(node)
            return
        primitive = self.primitives.get(node.op_type.removeprefix("REF::"))
        if primitive is None:
            raise CaptureError(
                f"{node.domain or node.op_type} calls a function of the graph: control flow that depends on tensor "
                "values cannot be captured, nor cells that lazy_inline keeps apart"
            )
        name = primitive.op_type
        arguments = [self._value(i) for i in node.input]
        held = set().union(*(self.held_back.get(i, ()) for i in node.input))
        if name == "UpdateState":
            self.values[output] = State(frozenset().union(*(self._state_calls(a) for a in arguments)))
        elif name in _PASS_ON:
            self.values[output] = arguments[0]
            if name == "Load":
                self.loaded[output] = next((a for a in arguments if isinstance(a, State)), State())
            elif name == "Depend" and not isinstance(arguments[1], State):
                held |= self._producers(arguments[1])
        elif name in primitives.CACHE_OPERATORS:
            # Data is where a schedule puts it; what is kept of the model's own operators is what they wait for.
            self.values[output] = arguments[0]
            self.cache_operators.append(name)
            held |= set().union(*(a.calls for a in arguments if isinstance(a, State)))
        elif name in ("MakeTuple", "MakeList"):
            if arguments and all(isinstance(a, State) for a in arguments):
                self.values[output] = State(frozenset().union(*(a.calls for a in arguments)))
            else:
                self.values[output] = tuple(arguments)
        elif name in ("TupleGetItem", "ListGetItem"):
            self.values[output] = self._item(arguments, node.domain)
        elif views.is_view(name):
            self.values[output] = self._view(node, name, arguments, held)
        elif name in primitives.RESHAPES and isinstance(arguments[0], TensorView):
            self.values[output] = self._reshape(node, arguments[0])
        else:
            self.values[output] = self._call(node, name, primitive, arguments, held)
        self.node_results.append(self.values[output])
        if held and output not in self.held_back:
            self.held_back[output] = held
        if name in _SHOW_ARGUMENT:
            shown = self.loaded.get(node.input[0], self.shown.get(node.input[0]))
            if shown is not None:
                self.shown[output] = shown

    def _constant(self, node: Any) -> Any:
        attribute = node.attribute[0]
        where = f"constant {node.name!r}"
        kind = type(attribute).AttributeType.Name(attribute.type)
        if kind in _MONADS:
            return State()
        return self._as_constant(constants.attribute_value(attribute, where))

    def _as_constant(self, value: Any) -> Any:
        if isinstance(value, constants.TypeConstant):
            return Constant(None, str(value))
        if isinstance(value, tuple):
            parts = tuple(self._as_constant(v) for v in value)
            if all(isinstance(p, Constant) and not p.dtype for p in parts):
                return Constant(tuple(p.value for p in parts))
            return parts
        if not isinstance(value, np.ndarray):
            return Constant(value)
        dtype = constants.array_dtype(value)
        if value.nbytes <= LARGE_CONSTANT_BYTES:
            return Constant(value, dtype)
        key = (value.tobytes(), value.shape, dtype)
        if key not in self.large_constants:
            view = self._new_storage(value.shape, dtype, "constant", value=value)
            self.large_constants[key] = view.storage
        return TensorView(self.large_constants[key], value.shape, dtype)

    def _item(self, arguments: list[Any], where: str) -> Any:
        collection, index = arguments
        if isinstance(collection, Constant) and isinstance(collection.value, tuple):
            return Constant(collection.value[index.value])
        if not isinstance(collection, tuple):
            raise CaptureError(f"{where} takes an item of something that is no tuple")
        return collection[index.value]

    def _reshape(self, node: Any, argument: TensorView) -> TensorView:
        (tensor,) = self._result_tensors(node)
        shape = constants.static_shape(tensor, node.domain)
        return TensorView(argument.storage, shape, argument.dtype, argument.offset_bytes)

    def _result_tensors(self, node: Any) -> list[Any]:
        shape = next((a for a in node.attribute if a.name == "shape"), None)
        if shape is None:
            raise CaptureError(f"{node.domain}: MindSpore exported no shape for its result")
        if shape.values:
            tensors = [t for v in shape.values for t in v.tensors]
            if len(tensors) != len(shape.values):
                raise CaptureError(f"{node.domain} returns something that is no tensor")
            return tensors
        if not shape.tensors:
            raise CaptureError(f"{node.domain} returns something that is no tensor")
        return list(shape.tensors)

    def _view(self, node: Any, name: str, arguments: list[Any], held: set[int]) -> Any:
        where = node.domain or name
        base, *options = [a for a in arguments if not isinstance(a, State)]
        if not isinstance(base, TensorView) or not all(isinstance(o, Constant) for o in options):
            raise CaptureError(f"{where}: {name} of something other than a tensor cannot be captured")
        shown = views.results_of(name, base.shape, [o.value for o in options], where)
        shapes = [constants.static_shape(t, where) for t in self._result_tensors(node)]
        if isinstance(shown, views.Permutation):
            results = [self._copied_view(node, "Transpose", base, (shown.axes,), shapes[0], held)]
        elif isinstance(shown, views.Broadcast):
            results = [self._copied_view(node, "BroadcastTo", base, (shown.shape,), shapes[0], held)]
        else:
            results = []
            for region, shape in zip(shown, shapes, strict=True):
                offset = views.contiguous_offset(region, base.shape)
                if offset is None:
                    bounds = (region.start, region.stop, region.step, 0, 0, 0, 0, 0)
                    results.append(self._copied_view(node, "StridedSlice", base, bounds, shape, held))
                else:
                    offset_bytes = base.offset_bytes + constants.tensor_bytes((offset,), base.dtype)
                    results.append(TensorView(base.storage, shape, base.dtype, offset_bytes))
        return tuple(results) if any(a.name == "shape" and a.values for a in node.attribute) else results[0]

    def _copied_view(
        self, node: Any, name: str, base: TensorView, options: Sequence[Any], shape: tuple[int, ...], held: set[int]
    ) -> TensorView:
        result = self._add_copy(node.domain, name, base, options, shape, held, len(self.node_results))
        self.copied_views[result.storage] = base.storage
        return result

    def _add_copy(
        self,
        domain: str,
        name: str,
        base: TensorView,
        options: Sequence[Any],
        shape: tuple[int, ...],
        held: set[int],
        node: int,
    ) -> TensorView:
        """A copy of (part of) a tensor into a storage of its own, where MindSpore may only look at it differently."""
        result = self._new_storage(shape, base.dtype, "call", call=len(self.calls))
        self.calls.append(
            RawCall(
                primitive=name,
                domain=domain,
                attributes={},
                arguments=(base, *(Constant(o) for o in options)),
                outputs=[TensorView(result.storage, shape, base.dtype)],
                reads=(base.storage,),
                writes=(result.storage,),
                in_place=(False,),
                flops=0,
                node=node,
                control=set(held),
            )
        )
        return result

    def _call(self, node: Any, name: str, primitive: Any, arguments: list[Any], held: set[int]) -> Any:
        where = node.domain or name
        states = [a for a in arguments if isinstance(a, State)]
        kept = tuple(a for a in arguments if not isinstance(a, State))
        attributes = self._primitive_attributes(primitive)
        writes = self._written(name, attributes, kept, node, where)
        read_views = [
            v for n, a in enumerate(kept) if n not in writes or name not in primitives.OVERWRITES for v in tensors_in(a)
        ]
        tensors = self._result_tensors(node)
        number = len(self.calls)
        targets = [kept[w] for w in writes]
        outputs: list[TensorView] = []
        in_place: list[bool] = []
        for position, tensor in enumerate(tensors):
            shape, dtype = constants.static_shape(tensor, where), constants.dtype_name(tensor, where)
            target = targets[position] if len(tensors) <= len(targets) else None
            if target is not None and target.shape == shape and target.dtype == dtype:
                outputs.append(target)
                in_place.append(primitives.kernel_writes_argument(name))
            else:
                outputs.append(self._new_storage(shape, dtype, "call", call=number, result=position))
                in_place.append(False)
        call = RawCall(
            primitive=name,
            domain=node.domain,
            attributes=attributes,
            arguments=kept,
            outputs=outputs,
            reads=unique(v.storage for v in read_views),
            writes=unique([*(t.storage for t in targets), *(o.storage for o in outputs)]),
            in_place=tuple(in_place),
            flops=primitives.flops(
                name,
                [v.shape for a in kept for v in tensors_in(a)],
                [a.value for a in kept if isinstance(a, Constant) and not a.dtype],
                [o.shape for o in outputs],
            ),
            unique_id=_text(node.primal_attr, "unique_id"),
            forward_id=_text(node.primal_attr, "forward_unique_id"),
            node=len(self.node_results),
            control=held,
        )
        if primitives.has_hidden_state(attributes):
            if self.hidden_state_call is not None:
                call.control.add(self.hidden_state_call)
            self.hidden_state_call = number
        before = State(frozenset().union(*(s.calls for s in states)))
        for i, argument in zip(node.input, arguments, strict=True):
            for view in tensors_in(argument):
                self.reads_with_state.append((number, view.storage, self.loaded.get(i, self.shown.get(i, before))))
        self.calls.append(call)
        if targets:
            self.shown[node.output[0]] = State(before.calls | {number})
        single = not any(a.name == "shape" and a.values for a in node.attribute)
        return outputs[0] if single else tuple(outputs)

    def _primitive_attributes(self, primitive: Any) -> dict[str, Any]:
        if primitive.name not in self.attributes:
            where = f"primitive {primitive.op_type}"
            self.attributes[primitive.name] = {
                a.name: constants.attribute_value(a, f"{where}, attribute {a.name}") for a in primitive.attribute
            }
        return self.attributes[primitive.name]

    def _written(
        self, name: str, attributes: Mapping[str, Any], arguments: tuple[Any, ...], node: Any, where: str
    ) -> tuple[int, ...]:
        positions = tuple(p for p in primitives.written_arguments(name) if p < len(arguments))
        if not positions and attributes.get("side_effect_mem"):
            # No signature says what it writes: a parameter that comes without Load is one MindSpore lets it write.
            inputs = [
                i for i, a in zip(node.input, map(self._value, node.input), strict=True) if not isinstance(a, State)
            ]
            positions = tuple(
                n
                for n, i in enumerate(inputs)
                if isinstance(arguments[n], TensorView) and i not in self.loaded and self._is_parameter(arguments[n])
            )
        for position in positions:
            if not isinstance(arguments[position], TensorView):
                raise CaptureError(f"{where} ({name}) writes in place to a constant, which capture does not support")
        return positions

    def _is_parameter(self, view: TensorView) -> bool:
        return self.storages[view.storage].source == "parameter"

    def _producers(self, value: Any) -> set[int]:
        storages = {v.storage for v in tensors_in(value)}
        return {n for n, c in enumerate(self.calls) if storages & set(c.writes)}

    def _state_calls(self, value: Any) -> frozenset[int]:
        if isinstance(value, State):
            return value.calls
        return frozenset(self._producers(value))

    def _collect_results(self, value: Any, results: list[TensorView]) -> None:
        if isinstance(value, TensorView):
            if self.storages[value.storage].source == "input":
                value = self._add_copy("Default/TensorMove-op", "TensorMove", value, (), value.shape, set(), -1)
            results.append(value)
        elif isinstance(value, tuple):
            for v in value:
                self._collect_results(v, results)
        elif isinstance(value, Constant) and isinstance(value.value, np.ndarray):
            results.append(self._new_storage(value.value.shape, value.dtype, "constant", value=value.value))
        elif isinstance(value, Constant):
            raise CaptureError(
                f"the model returns the constant {value.value!r}; capture needs results that are tensors"
            )


def _text(attributes: Any, name: str) -> str:
    return next((a.s.decode() for a in attributes if a.name == name), "")
