"""The compiler pass inside MindSpore: a plan that fits is applied, and results are the same bits."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops
from plugin_plans import Small, X, graph_mode, held_back, node, plan_of, run, same_as_plain

from hyperoffload_core.capture import load_source
from hyperoffload_core.mindspore_plugin import passes
from hyperoffload_core.mindspore_plugin.edits import NewNode, Plan, SetInput, plan_text
from hyperoffload_core.mindspore_plugin.nodes import live_graph
from hyperoffload_core.mindspore_plugin.toolchain import find_compiler

__all__ = ["graph_mode"]
pytestmark = pytest.mark.mindspore
MODELS = Path(__file__).parent / "models"


class Counting(nn.Cell):
    """Reads a parameter before and after it is updated: MindSpore exports copies that a graph to be run has not yet."""

    def __init__(self) -> None:
        super().__init__()
        self.count = Parameter(Tensor(np.float32(1)), name="count")

    def construct(self, x):
        before = x * self.count
        ops.assign_add(self.count, Tensor(np.float32(2)))
        return before, x * self.count


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
