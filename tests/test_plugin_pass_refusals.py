"""The compiler pass inside MindSpore: what does not fit is refused with a sentence, and nothing is changed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mindspore import nn, ops
from plugin_plans import Small, exported, graph_mode, node, plan_of, refusal

from hyperoffload_core.errors import UserError
from hyperoffload_core.mindspore_plugin import passes
from hyperoffload_core.mindspore_plugin.edits import Edit, Expected, NewNode, Plan, SetInput, plan_text
from hyperoffload_core.mindspore_plugin.toolchain import SOURCES, find_compiler

__all__ = ["graph_mode"]
pytestmark = pytest.mark.mindspore


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


def test_a_library_that_is_not_there_is_said(tmp_path: Path) -> None:
    passes.use_kernels(tmp_path / "none.so")
    assert "the kernels of the cache operators cannot be loaded" in refusal(plan_text(plan_of(Small)))


def test_a_refused_graph_is_written_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYPEROFFLOAD_DUMP", str(tmp_path))
    refusal(plan_text(plan_of(Small)), OtherWiring)
    assert [p.name for p in tmp_path.iterdir()] == ["small-60-1.before.txt"]


def test_a_dump_folder_that_cannot_be_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HYPEROFFLOAD_DUMP", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"HYPEROFFLOAD_DUMP names .*file"):
        passes.set_plan("")


def test_no_damaged_plan_does_more_than_be_refused(tmp_path: Path) -> None:
    """20,000 damaged copies of a plan with every kind of line, read under sanitizers."""
    nodes = (
        Expected("Load", "Default/Load", "float32[6,6]", ("p:w", "")),
        Expected("MatMul", "Default/MatMul", "float32[6,6]", ("p:x", "n0", "", "")),
        Expected("TensorMove", "Default/TensorMove", "float32[6,6]", ("n0",)),
        Expected("ReLU", "Default/ReLU", "float32[6,6]", ("n1",)),
        Expected("UpdateState", "Default/UpdateState", "", ("", "n0", "n1")),
        Expected("Add", "Default/Add", "float32[6,6]", ("n3", "n2")),
        Expected("Depend", "Default/Depend", "float32[6,6]", ("n5", "n4")),
    )
    edits = (
        NewNode(0, "HyperMark", ("i3", "n1"), "token", "Scope"),
        NewNode(1, "clone n3", ("",), "like n3"),
        NewNode(2, "Depend", ("x1", "x0"), "like n3"),
        SetInput(5, 0, "x2"),
        SetInput(6, 1, "U"),
        NewNode(3, "Depend", ("n6", "n3"), "like p:x"),
        SetInput(7, 0, "x3"),
    )
    sanitized = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-D_GLIBCXX_ASSERTIONS", "-O0", "-g1"]
    compiler = [*find_compiler().command, "-std=c++17", "-Wall", "-Wextra", "-Werror"]
    (tmp_path / "empty.cc").write_text("int main() { return 0; }\n")
    if subprocess.run([*compiler, *sanitized, "empty.cc", "-o", "empty"], cwd=tmp_path, capture_output=True).returncode:
        pytest.skip(f"{compiler[0]} has no sanitizers here")
    sources = [Path(__file__).parent / "cpp" / "drive_plans.cc"]
    sources += [SOURCES / f"pass_{part}.cc" for part in ("plan", "match", "check")]
    built = subprocess.run(
        [*compiler, *sanitized, f"-I{SOURCES}", *sources, "-o", tmp_path / "drive"], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    text = plan_text(Plan("damaged", "cpu", nodes, edits))
    run = subprocess.run([tmp_path / "drive"], input=text, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
