"""The compiler pass inside MindSpore: a plan is applied as a whole, or refused with a sentence and nothing changed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from hyperoffload_core.capture import load_source
from hyperoffload_core.errors import UserError
from hyperoffload_core.mindspore_plugin import passes
from hyperoffload_core.mindspore_plugin.edits import Edit, NewNode, Plan, SetInput, plan_text
from hyperoffload_core.mindspore_plugin.nodes import live_graph
from hyperoffload_core.mindspore_plugin.toolchain import find_compiler

pytestmark = pytest.mark.mindspore
MODELS = Path(__file__).parent / "models"
X = np.random.default_rng(0).standard_normal((4, 6), dtype=np.float32)


class Small(nn.Cell):
    """Node 0 Load, 1 MatMulExt, 2 ReLU, 3 Mul, then the sum and what returns it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(np.linspace(-1, 1, 36, dtype=np.float32).reshape(6, 6)), name="weight")

    def construct(self, x):
        y = ops.relu(ops.matmul(x, self.weight))
        return (y * x).sum()


class OtherWiring(Small):
    """The same primitives, scopes and shapes as `Small`."""

    def construct(self, x):
        y = ops.relu(ops.matmul(x, self.weight))
        return (y * y).sum()


class Scoped(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Small()

    def construct(self, x):
        return self.inner(x)


class Counting(nn.Cell):
    """Reads a parameter before and after it is updated: MindSpore exports copies that a graph to be run has not yet."""

    def __init__(self) -> None:
        super().__init__()
        self.count = Parameter(Tensor(np.float32(1)), name="count")

    def construct(self, x):
        before = x * self.count
        ops.assign_add(self.count, Tensor(np.float32(2)))
        return before, x * self.count


@pytest.fixture(autouse=True)
def graph_mode() -> Iterator[None]:
    try:
        passes.register("cpu")
    except UserError as error:
        pytest.skip(str(error))
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE)
    yield
    passes.use_kernels(passes.prepare())
    passes.set_plan("")
    ms.set_context(mode=mode)


@cache
def exported(kind: Callable[[], nn.Cell], rows: int = 4) -> Plan:
    live = live_graph(kind(), (Tensor(X[:rows]),), "small")
    return Plan("small-60", "cpu", tuple(n.expected for n in live.nodes), ())


def plan_of(kind: Callable[[], nn.Cell], *edits: Edit) -> Plan:
    return replace(exported(kind), edits=edits)


def node(plan: Plan, primitive: str) -> int:
    return next(i for i, n in enumerate(plan.nodes) if n.primitive == primitive)


def held_back(plan: Plan, number: int, by: str) -> tuple[Edit, Edit]:
    """Input 0 of a node waits for another value."""
    ref = plan.nodes[number].inputs[0]
    return NewNode(900 + number, "Depend", (ref, by), f"like {ref}"), SetInput(number, 0, f"x{900 + number}")


def run(kind: Callable[[], nn.Cell], text: str) -> tuple[Any, ...]:
    """The results of a new cell, compiled under the plan."""
    passes.set_plan(text)
    results = kind()(Tensor(X))
    return tuple(r.asnumpy() for r in (results if isinstance(results, tuple) else (results,)))


@cache
def plain(kind: Callable[[], nn.Cell]) -> tuple[bytes, ...]:
    return tuple(r.tobytes() for r in run(kind, ""))


def same_as_plain(kind: Callable[[], nn.Cell], text: str) -> bool:
    expected = plain(kind)
    return tuple(r.tobytes() for r in run(kind, text)) == expected


def refusal(text: str, kind: Callable[[], nn.Cell] = Small) -> str:
    """Why the plan is refused; the cell's result is what it is without a plan."""
    assert same_as_plain(kind, text)
    report = passes.report()
    assert isinstance(report, passes.Refused)
    return report.reason


def test_without_a_plan_nothing_is_reported() -> None:
    run(Small, "")
    assert passes.report() is None


def test_edits_are_made_and_the_result_is_bit_identical() -> None:
    plan = plan_of(Small)
    relu, mul = node(plan, "ReLU"), node(plan, "Mul")
    again = NewNode(0, f"clone n{relu}", ("",), f"like n{relu}", "Default")
    edits = (again, SetInput(mul, 0, "x0"), *held_back(plan, node(plan, "SumExt"), f"n{relu}"))
    assert same_as_plain(Small, plan_text(replace(plan, edits=edits)))
    assert passes.report() == passes.Applied(new_nodes=2, changed_inputs=2)


def test_edits_change_what_is_computed() -> None:
    plan = plan_of(Small)
    mul, total, end = node(plan, "Mul"), node(plan, "SumExt"), len(plan.nodes)
    edits = (
        NewNode(0, f"clone n{mul}", ("p:x", "p:x"), f"like n{mul}"),
        SetInput(total, 0, "x0"),
        # the old product must still run
        NewNode(1, "Depend", (f"n{end - 1}", f"n{mul}"), f"like n{end - 1}"),
        SetInput(end, 0, "x1"),
    )
    assert run(Small, plan_text(replace(plan, edits=edits)))[0] == pytest.approx((X * X).sum(), rel=1e-5)


def test_a_plan_whose_nodes_only_stand_in_another_order_is_taken() -> None:
    """The same step with more edges between side effects, as MindSpore exports it, lists its nodes otherwise."""
    cell, inputs = load_source(str(MODELS / "convnet.py:build"))
    live = live_graph(cell, inputs, "convnet")
    passes.set_plan(plan_text(Plan("convnet", "cpu", tuple(n.expected for n in live.nodes), ())))
    cell(*inputs)
    assert passes.report() == passes.Applied(0, 0)


def test_copies_that_mindspore_adds_later_can_be_held_back() -> None:
    plan = plan_of(Counting)
    copies = [i for i, n in enumerate(plan.nodes) if n.primitive == "TensorMove"]
    assert len(copies) == 2, "MindSpore exports a copy of each state that is read"
    last_update = node(plan, "AssignAdd")
    state = NewNode(0, "UpdateState", ("U", f"n{last_update}"), "U")
    text = plan_text(replace(plan, edits=(state, *held_back(plan, copies[1], "x0"))))
    assert same_as_plain(Counting, text)
    assert isinstance(passes.report(), passes.Applied)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"primitive": "Tanh"}, r"^node 2 is ReLU float32\[4,6\] in Default/ReLU: schedule small-60 was made for Tanh"),
        ({"scope": "Default/other/ReLU"}, r"was made for ReLU float32\[4,6\] in Default/other/ReLU; compile it again"),
        ({"result": "float32[4,7]"}, r"was made for ReLU float32\[4,7\]; compile it again for this model$"),
        ({"inputs": ("n0",)}, r"was made for the one from node 0 \(Load in Default/Load\)|was made for Load"),
        ({"inputs": ("p:x",)}, r"^node 2 \(ReLU in Default/ReLU\) has input 0 from MatMulExt .* made for x;"),
        ({"inputs": ("n1", "n1")}, r"^node 2 \(ReLU in Default/ReLU\) has 1 inputs: .* made for 2;"),
        ({"inputs": ("n77",)}, r"^the plan cannot be read: node 2 has an input n77$"),
    ],
    ids=["primitive", "scope", "result", "other-node", "parameter", "count", "no-node"],
)
def test_a_node_that_differs_is_named(changed: dict[str, Any], says: str) -> None:
    plan = plan_of(Small)
    assert node(plan, "ReLU") == 2
    nodes = tuple(replace(n, **changed) if i == 2 else n for i, n in enumerate(plan.nodes))
    text = plan_text(replace(plan, nodes=nodes))
    assert re.search(says, refusal(text))


@pytest.mark.parametrize("other", [OtherWiring, Scoped], ids=["wiring", "scopes"])
def test_the_plan_of_another_model_is_refused(other: Callable[[], nn.Cell]) -> None:
    assert "was made for" in refusal(plan_text(plan_of(Small)), other)


def test_the_plan_of_another_input_shape_is_refused() -> None:
    assert "float32[4,6]" in refusal(plan_text(exported(Small, 2)))


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        ([SetInput(2, 0, "x7")], 'refers to "x7", which is no node, parameter or constant'),
        ([SetInput(2, 0, "p:nothing")], 'refers to "p:nothing"'),
        ([SetInput(2, 5, "n1")], "sets input 5 of node 2, which has 1"),
        ([SetInput(99, 0, "n1")], "sets an input of node 99, which is none of the graph"),
        ([NewNode(0, "Depend", ("n1", "x0"), "like n1")], 'refers to "x0"'),
        ([NewNode(0, "Depend", ("n1", "n2"), "like x9")], 'wants a result like "x9"'),
        ([NewNode(0, "Depend", ("n1", "n2"), "anything")], 'has a result "anything"'),
        ([NewNode(0, "clone n99", ("n1",), "like n1")], "clones n99, which is no node with a primitive"),
        ([NewNode(0, "clone n2", ("n1", "n1"), "like n1")], "clones a node of 1 inputs with 2"),
        ([NewNode(0, "Depend", ("n1", "n2"), "like n1"), SetInput(2, 0, "x0")], "n2 would wait for itself"),
        ([NewNode(0, "Exp", ("n1",), "like n1")], "makes Exp, which nothing waits for: it would not run"),
        ([NewNode(0, "clone n2", ("",), "like n2")], "makes ReLU, which nothing waits for: it would not run"),
        ([SetInput(3, 0, "p:x")], "with its edits node 1 (MatMulExt in Default/MatMulExt) would not run any more"),
        ([NewNode(0, "Depend", ("n1", "n1"), "like n1")] * 2, "makes new node 0 a second time"),
    ],
)
def test_an_edit_that_cannot_be_made_is_refused(edits: list[Edit], says: str) -> None:
    reason = refusal(plan_text(plan_of(Small, *edits)))
    assert reason.startswith("the plan does not fit the graph: ")
    assert says in reason


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (lambda t: "something " + t, "line 1 is not"),
        (lambda t: t.replace("\t1\n", "\t2\n", 1), "line 1 is not"),
        (lambda t: t[: len(t) // 2], 'is not "end"'),
        (lambda t: t.replace("node\t", "knot\t", 1), 'starts with "knot"'),
        (lambda t: t.replace("\nend", "\nset\t2\tx\tn1\nend"), 'has "x" where a number belongs'),
        (lambda t: t.replace("\nend", "\nset\t2\nend"), "has 2 fields, not 4"),
        (lambda t: t.replace("graph\tsmall-60\t", "graph\tsmall-60\t1"), "nodes and lists"),
    ],
    ids=["other-text", "version", "cut-off", "word", "number", "fields", "count"],
)
def test_a_broken_plan_is_refused(broken: Callable[[str], str], says: str) -> None:
    reason = refusal(broken(plan_text(plan_of(Small))))
    assert reason.startswith("the plan cannot be read: ")
    assert says in reason


class Sum(nn.Cell):
    def construct(self, x):
        return ops.addn((x * 2, x * 3))


LIBRARY = r"""
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static void record(void **params) {
  FILE *file = fopen(getenv("CALLS"), "a");
  fprintf(file, "%ld\n", *static_cast<int64_t *>(params[0]));
  fclose(file);
}

#define OP(NAME) \
  extern "C" int NAME(int count, void **params, int *ndims, int64_t **shapes, const char **, void *, void *)

OP(StartCopy) {
  record(params);
  int64_t bytes = sizeof(float);
  for (int i = 0; i < ndims[count - 1]; i++) bytes *= shapes[count - 1][i];
  memset(params[count - 1], 0xff, bytes);
  return 0;
}

OP(EndCopy) {  // (number, what StartCopy gave, what to copy, what to wait for)
  usleep(20000);
  record(params);
  int64_t bytes = sizeof(float);
  for (int i = 0; i < ndims[1]; i++) bytes *= shapes[1][i];
  memcpy(params[1], params[2], bytes);
  return 0;
}
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which functions of a library of cache operators write the numbers they are called with."""
    (tmp_path / "copies.cc").write_text(LIBRARY)
    command = [*find_compiler().command, "-shared", "-fPIC", "copies.cc", "-o", "libcopies.so"]
    subprocess.run(command, check=True, cwd=tmp_path)
    passes.use_kernels(tmp_path / "libcopies.so")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return tmp_path / "calls"


def test_functions_of_a_library_are_called_and_what_depends_on_them_waits(calls: Path) -> None:
    plan = plan_of(Sum)
    add, both = node(plan, "AddN"), node(plan, "MakeTuple")
    assert plan.nodes[both].inputs == ("n0", "n1")
    # What AddN takes is there before EndCopy has filled it: n0 is ready with call 8, which EndCopy waits for.
    edits = (
        NewNode(0, "StartCopy", ("i-7", "p:x"), "like n1"),
        *held_back(plan, 0, "x0"),
        NewNode(1, "Depend", ("n1", "n0"), "like n1"),
        NewNode(2, "StartCopy", ("i8", "x1"), "like n1"),
        NewNode(3, "EndCopy", ("i42", "x0", "n1", "x2"), "token"),
        NewNode(4, f"clone n{both}", ("", "x0"), f"like n{both}"),
        NewNode(5, "Depend", ("x4", "x3"), f"like n{both}"),
        SetInput(add, 0, "x5"),
        NewNode(6, "Depend", (f"n{add}", "x3"), f"like n{add}"),
        SetInput(len(plan.nodes), 0, "x6"),
    )
    assert same_as_plain(Sum, plan_text(replace(plan, edits=edits)))
    assert passes.report() == passes.Applied(new_nodes=8, changed_inputs=3)
    assert calls.read_text().split() == ["-7", "8", "42"]


def test_a_library_that_is_not_there_is_said(tmp_path: Path) -> None:
    passes.use_kernels(tmp_path / "none.so")
    assert "the kernels of the cache operators cannot be loaded" in refusal(plan_text(plan_of(Small)))


def test_the_graph_is_written_before_and_after_the_edits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPEROFFLOAD_DUMP", str(tmp_path / "new" / "dumps"))
    plan = plan_of(Small)
    text = plan_text(replace(plan, edits=held_back(plan, 2, "n1")))
    run(Small, text)
    run(Small, text)
    names = ["small-60-1.after.txt", "small-60-1.before.txt", "small-60-2.after.txt", "small-60-2.before.txt"]
    assert sorted(p.name for p in (tmp_path / "new" / "dumps").iterdir()) == names
    before = (tmp_path / "new" / "dumps" / names[1]).read_text()
    after = (tmp_path / "new" / "dumps" / names[0]).read_text()
    assert "n2 = ReLU(n1) float32[4,6] Default/ReLU\n" in before
    assert "x902 = Depend(n1,n1) float32[4,6] " in after
    assert "n2 = ReLU(x902) float32[4,6] Default/ReLU\n" in after


def test_a_refused_graph_is_written_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPEROFFLOAD_DUMP", str(tmp_path))
    refusal(plan_text(plan_of(Small)), OtherWiring)
    assert [p.name for p in tmp_path.iterdir()] == ["small-60-1.before.txt"]


def test_a_dump_folder_that_cannot_be_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HYPEROFFLOAD_DUMP", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"HYPEROFFLOAD_DUMP names .*file"):
        passes.set_plan("")


class Renamed(nn.Cell):
    """Exported, its input is called y; compiled to be run, x."""

    def construct(self, x):
        y = x
        for _ in range(2):
            y = ops.relu(y * x)
        return y


def test_inputs_are_matched_by_what_takes_them_whatever_a_compile_calls_them() -> None:
    plan = plan_of(Renamed)
    ref = plan.nodes[0].inputs[0]
    edits = (NewNode(0, "Depend", (ref, ref), f"like {ref}"), SetInput(0, 0, "x0"))
    assert same_as_plain(Renamed, plan_text(replace(plan, edits=edits)))
    assert passes.report() == passes.Applied(1, 1)
