"""Edits made in a MindIR: what MindSpore loads computes as before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mindspore import Tensor, nn

from hyperoffload_core.capture import load_source
from hyperoffload_core.capture.mindir import export_mindir
from hyperoffload_core.mindspore_plugin.edits import Edit, NewNode, SetInput
from hyperoffload_core.mindspore_plugin.mindir import EditError, apply_edits

pytestmark = pytest.mark.mindspore
MODELS = Path(__file__).parent / "models"


@cache
def mindir(reference: str) -> Any:
    cell, inputs = load_source(str(MODELS / reference))
    return export_mindir(cell, inputs)


def calls(model: Any) -> list[Any]:
    return [n for n in model.graph.node if n.op_type != "Constant"]


def primitives(model: Any) -> list[str]:
    names = {p.name: p.op_type for p in model.primitives}
    return [names[n.op_type.removeprefix("REF::")] for n in calls(model)]


def produced_inputs(model: Any) -> list[tuple[int, int, int]]:
    """(node, position, producer) wherever a node takes the tensor another node gives."""
    kinds = primitives(model)
    number = {n.output[0]: i for i, n in enumerate(calls(model))}
    return [
        (i, position, number[name])
        for i, node in enumerate(calls(model))
        for position, name in enumerate(node.input)
        if name in number and kinds[number[name]] not in ("UpdateState", "MakeTuple")
    ]


def chained(model: Any) -> list[Edit]:
    """Edits that hold every computing node back until the one before it has run."""
    edits: list[Edit] = []
    seen: set[int] = set()
    before: int | None = None
    for node, position, producer in produced_inputs(model):
        if node in seen or primitives(model)[node] in ("Load", "Depend", "UpdateState", "MakeTuple", "TupleGetItem"):
            continue
        seen.add(node)
        if before is not None:
            edits.append(NewNode(node, "Depend", (f"n{producer}", f"n{before}"), f"like n{producer}"))
            edits.append(SetInput(node, position, f"x{node}"))
        before = node
    return edits


def losses_and_parameters(cell: Any, inputs: Sequence[Tensor], steps: int = 3) -> tuple[list[bytes], dict[str, bytes]]:
    ms.set_context(mode=ms.GRAPH_MODE)
    results = [cell(*inputs) for _ in range(steps)]
    losses = [part.asnumpy().tobytes() for r in results for part in (r if isinstance(r, tuple) else (r,))]
    return losses, {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}


def loaded(model: Any, values: Mapping[str, np.ndarray], path: Path) -> nn.GraphCell:
    path.write_bytes(model.SerializeToString())
    return nn.GraphCell(ms.load(str(path)), {n: ms.Parameter(Tensor(v), name=n) for n, v in values.items()})


@pytest.mark.parametrize("reference", ["transformer.py:build", "inference.py:decode"])
def test_a_graph_in_which_every_node_waits_for_the_one_before_it_gives_the_same_bits(
    reference: str, tmp_path: Path
) -> None:
    cell, inputs = load_source(str(MODELS / reference))
    model = export_mindir(cell, inputs)
    values = {p.name: p.asnumpy().copy() for p in cell.get_parameters()}
    edits = chained(model)
    assert len(edits) > 10
    edited = loaded(apply_edits(model, edits), values, tmp_path / "chained.mindir")
    got, parameters = losses_and_parameters(edited, inputs)
    wanted, wanted_parameters = losses_and_parameters(cell, inputs)
    assert got == wanted
    assert parameters == {name: wanted_parameters[name] for name in parameters}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_after_any_edits_every_node_comes_after_its_inputs_and_the_rest_is_as_it_was(data: st.DataObject) -> None:
    model = mindir("mlp.py:half")
    untouched = model.SerializeToString()
    held = {
        node: (position, producer, data.draw(st.integers(0, node - 1)))
        for node, position, producer in data.draw(
            st.lists(st.sampled_from(produced_inputs(model)), max_size=20, unique_by=lambda use: use[0])
        )
    }
    edits: list[Edit] = []
    for node, (position, producer, before) in held.items():
        edits.append(NewNode(node, "Depend", (f"n{producer}", f"n{before}"), f"like n{producer}", "Default/here"))
        edits.append(SetInput(node, position, f"x{node}"))
    edited = apply_edits(model, edits)
    assert model.SerializeToString() == untouched
    made: set[str] = {v.name for v in (*edited.graph.input, *edited.graph.parameter)}
    for node in edited.graph.node:
        assert set(node.input) <= made
        made.update(node.output)
    assert edited.graph.output[0].name in made
    by_name = {n.output[0]: n for n in edited.graph.node}
    for node, original in enumerate(calls(model)):
        now = by_name[original.output[0]]
        if node in held:
            position, producer, before = held[node]
            depend = by_name[now.input[position]]
            assert depend.domain.startswith("Default/here/Depend-op")
            assert list(depend.input) == [calls(model)[producer].output[0], calls(model)[before].output[0]]
            assert depend.attribute[0] == next(a for a in calls(model)[producer].attribute if a.name == "shape")
            now.input[position] = original.input[position]
        assert now == original
    assert len(edited.graph.node) == len(model.graph.node) + len(held)


def test_new_nodes_take_constants_parameters_and_the_inputs_of_what_they_repeat() -> None:
    model = mindir("mlp.py:half")
    name = next(p.name for p in model.graph.parameter).removeprefix(f"{model.graph.name}:")
    node, position, producer = next(u for u in produced_inputs(model) if primitives(model)[u[0]] == "MatMul")
    repeated = ["" for _ in calls(model)[node].input]
    repeated[position] = f"n{producer}"
    edited = apply_edits(
        model,
        [
            NewNode(0, "UpdateState", ("U", f"p:{name}"), "U"),
            NewNode(1, "Detach", (f"p:{name}", "b0", "x0"), f"like p:{name}"),
            NewNode(2, f"clone n{node}", tuple(repeated), f"like n{node}", "Default/again"),
            NewNode(3, "HyperMark", ("i-7", "x2"), "token"),
            SetInput(len(calls(model)), 0, "x2"),
        ],
    )
    by_name = {n.output[0]: n for n in edited.graph.node}
    state, detach, clone, mark = (by_name[f"{model.graph.name}:hyperoffload_{n}"] for n in range(4))
    parameter = next(p for p in model.graph.parameter)
    assert [by_name[i].attribute[0].i for i in detach.input[1:2]] == [0]
    assert detach.input[0] == parameter.name
    assert detach.input[2] == state.output[0]
    assert by_name[state.input[0]].attribute[0].type == state.attribute[0].type
    assert list(detach.attribute[0].tensors[0].dims) == list(parameter.dims)
    assert list(clone.input) == list(calls(model)[node].input)
    assert clone.op_type == calls(model)[node].op_type
    assert by_name[mark.input[0]].attribute[0].i == -7
    assert list(mark.attribute[0].tensors[0].dims) == [1]
    assert edited.graph.output[0].name == clone.output[0]
    entry = next(p for p in edited.primitives if p.op_type == "Detach")
    assert [(a.name, a.i) for a in entry.attribute] == [("side_effect_mem", 1)]


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ([SetInput(0, 0, "n999")], "no node 'n999'"),
        ([SetInput(0, 0, "x1")], "no node 'x1'"),
        ([SetInput(0, 99, "n1")], "none at position 99"),
        ([SetInput(0, 0, "p:nobody")], "no parameter or input 'nobody'"),
        ([NewNode(1, "Depend", ("n0", "n1"), "nothing")], "says no type"),
        ([NewNode(1, "Depend", ("n0", "n1"), "like p:nobody")], "no such tensor"),
        ([NewNode(1, "Depend", ("n0", "n1"), "U"), NewNode(1, "Depend", ("n0", "n1"), "U")], "two new nodes 1"),
        ([NewNode(1, "clone n0", ("",) * 99, "like n0")], "inputs instead of"),
    ],
)
def test_edits_that_do_not_fit_are_refused(edits: list[Edit], words: str) -> None:
    with pytest.raises(EditError, match=words):
        apply_edits(mindir("mlp.py:half"), edits)


def test_a_node_that_would_wait_for_itself_is_refused() -> None:
    model = mindir("mlp.py:half")
    node, position, producer = produced_inputs(model)[0]
    edits = [
        NewNode(0, "Depend", (f"n{producer}", f"n{len(calls(model)) - 1}"), f"like n{producer}"),
        SetInput(node, position, "x0"),
    ]
    with pytest.raises(EditError, match="waits for itself"):
        apply_edits(model, edits)
