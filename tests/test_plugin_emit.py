"""`hyperoffload emit`: a model with a schedule inside, as MindSpore would run it on Ascend.

Ascend's kernels are stood in for by tests/cpp/ascend_kernels.cc: they copy at once, refuse what would lose data, and a
Detach destroys the device copy. Nothing here has run on Ascend.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from mindspore.ops.auto_generate import CopyToDevice, CopyToHost, Detach, UpdateToDevice, UpdateToRemote
from mindspore.train.mind_ir_pb2 import ModelProto

from app.cli.main import run
from hyperoffload_core.capture import capture, load_source
from hyperoffload_core.capture.primitives import CACHE_OPERATORS
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import roofline_durations
from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import load_hardware
from hyperoffload_core.ir import Graph, Op
from hyperoffload_core.mindspore_plugin.emit import EmitError, emit_model
from hyperoffload_core.mindspore_plugin.nodes import read_live_graph
from hyperoffload_core.mindspore_plugin.toolchain import find_compiler
from hyperoffload_core.policy import Policy
from hyperoffload_core.schedule import Schedule, read_schedule, write_schedule
from tests.ascend_step import STEPS, take_values
from tests.command import ROOT, hyperoffload

pytestmark = pytest.mark.mindspore
TESTS = Path(__file__).parent
MODEL = f"{TESTS / 'models' / 'transformer.py'}:build"
TIES = ("Load", "Depend", "UpdateState", "MakeTuple", "TupleGetItem", "Reshape", "ExpandDims")


@dataclass(frozen=True)
class Example:
    """A schedule that moves much, and the file the command wrote for it."""

    folder: Path
    said: Mapping[str, Any]

    @property
    def schedule(self) -> Schedule:
        return read_schedule(self.folder / "step.json")

    @property
    def model(self) -> ModelProto:
        return ModelProto.FromString((self.folder / "step.mindir").read_bytes())


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Example:
    folder = tmp_path_factory.mktemp("emit")
    cell, inputs = load_source(MODEL)
    graph = capture(cell, inputs, with_values=False).graph
    hardware = load_hardware("ascend-910c", {})
    policy = Policy(memory_limit="55%", strategy="reactive")
    schedule = compile_schedule(graph, roofline_durations(graph, hardware), hardware, policy)
    write_schedule(schedule, folder / "step.json")
    done = hyperoffload("emit", "step.json", MODEL, "step.mindir", "--json", folder=folder)
    assert done.returncode == 0, done.stderr
    return Example(folder, json.loads(done.stdout))


@pytest.fixture(scope="module")
def plain(example: Example) -> tuple[list[bytes], dict[str, bytes]]:
    """Losses and parameters of the model's own cell with the file's values, in MindSpore's graph mode."""
    cell, inputs = load_source(MODEL)
    take_values(cell, example.folder / "step.mindir")
    ms.set_context(mode=ms.GRAPH_MODE)
    losses = [cell(*inputs).asnumpy().tobytes() for _ in range(STEPS)]
    return losses, {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        compiler = find_compiler()
    except UserError as error:
        pytest.skip(str(error))
    library = tmp_path_factory.mktemp("kernels") / "libascend.so"
    flags = ("-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror")
    source = TESTS / "cpp" / "ascend_kernels.cc"
    subprocess.run([*compiler.command, *flags, str(source), "-o", str(library)], check=True)
    return library


def names(model: ModelProto) -> dict[str, str]:
    """Primitives of the nodes by the names of their outputs, in the file's order; constants left out."""
    primitives = {p.name: p.op_type for p in model.primitives}
    return {
        n.output[0]: primitives[n.op_type.removeprefix("REF::")] for n in model.graph.node if n.op_type != "Constant"
    }


def operators(model: ModelProto) -> list[tuple[int, int]]:
    """The cache operators in the file's order: which, and the bytes of what it moves."""
    primitive, sizes = names(model), {1: 4, 6: 4, 7: 8, 9: 1}
    found = []
    for node in model.graph.node:
        if primitive.get(node.output[0]) in CACHE_OPERATORS:
            (tensor,) = node.attribute[0].tensors
            size = int(np.prod(tensor.dims)) * sizes[tensor.data_type]
            found.append((CACHE_OPERATORS.index(primitive[node.output[0]]), size))
    return found


@pytest.mark.parametrize("way", ["loaded", "compiled"])
def test_steps_under_a_schedule_give_the_same_bits_with_the_operators_in_its_order(
    way: str, example: Example, plain: tuple[list[bytes], dict[str, bytes]], kernels: Path
) -> None:
    result = example.folder / f"{way}.npz"
    files = [kernels, MODEL, example.folder / "step.mindir", example.folder / "step.json", result]
    done = subprocess.run(
        [sys.executable, str(TESTS / "ascend_step.py"), *map(str, files), way],
        env=dict(os.environ) | {"PYTHONPATH": str(ROOT), "GLOG_v": "3"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    got = dict(np.load(result))
    assert [loss.tobytes() for loss in got["losses"]] == plain[0]
    parameters = {n.removeprefix("parameter:"): v.tobytes() for n, v in got.items() if n.startswith("parameter:")}
    assert parameters == {name: plain[1][name] for name in parameters}
    assert len(parameters) > 80
    assert [tuple(call) for call in got["calls"]] == operators(example.model) * STEPS
    assert got["fetched"] == len(example.said["in_pool"]) > 10


def test_the_graph_alone_forces_the_order_with_or_without_weights(example: Example) -> None:
    cell, inputs = load_source(MODEL)
    model = emit_model(cell, inputs, example.schedule, name="it", where="here", weights=False).model
    assert all(tensor.raw_data for tensor in example.model.graph.parameter)
    assert not any(tensor.raw_data for tensor in model.graph.parameter)
    primitive = names(model)
    working = [name for name, kind in primitive.items() if kind not in TIES]
    assert len(working) >= len(example.schedule.graph.ops) + len(operators(model))
    before: dict[str, int] = {}  # the working nodes each node waits for, as bits
    for node in model.graph.node:
        waits = 0
        for name in node.input:
            waits |= before.get(name, 0) | (1 << working.index(name) if name in working else 0)
        before[node.output[0]] = waits
    for n, name in enumerate(working[1:]):
        assert before[name] >> n & 1, f"{primitive[name]} does not wait for {primitive[working[n]]}"
    assert before[model.graph.output[0].name] == (1 << len(working)) - 1


def test_read_back_the_file_is_the_model_in_the_schedules_order(example: Example) -> None:
    cell, _ = load_source(MODEL)
    graph, schedule = example.schedule.graph, example.schedule
    back = read_live_graph(example.model, cell, "back").graph
    assert [facts(back, op) for op in back.ops] == [facts(graph, graph.ops[n]) for n in schedule.order]
    assert f"{len(operators(example.model))} cache operators" in back.notes[0]


def facts(graph: Graph, op: Op) -> tuple[Any, ...]:
    def of(storages: tuple[int, ...]) -> list[tuple[Any, ...]]:
        found = [graph.storages[s] for s in storages]
        return [(s.tensor_class, s.shape, s.dtype, s.name if s.persistent else "") for s in found]

    return op.primitive, op.scope, op.phase, sorted(of(op.reads)), sorted(of(op.writes))


def test_the_command_says_what_is_in_the_file(example: Example) -> None:
    assert set(example.said["cache_operators"]) == set(CACHE_OPERATORS)
    assert sum(example.said["cache_operators"].values()) == len(operators(example.model))
    assert example.said["bytes"] == (example.folder / "step.mindir").stat().st_size
    assert example.said["weights"] is True
    assert set(example.said["stays"].values()) == {"an input, which the caller holds"}
    homes = {s.name: home for s, home in zip(example.schedule.graph.storages, example.schedule.homes, strict=True)}
    assert {homes[name] for name in example.said["in_pool"]} == {"pool"}


def test_on_cpu_mindspore_refuses_the_operators_it_knows(example: Example) -> None:
    _, inputs = load_source(MODEL)
    cell = nn.GraphCell(ms.load(str(example.folder / "step.mindir")))
    with pytest.raises(RuntimeError, match=r"Unsupported op \[\w+\] on CPU") as refused:
        cell(*inputs)
    # A primitive that MindSpore does not know is shown without the prefix.
    assert any(f"PrimFunc_{name}" in str(refused.value) for name in CACHE_OPERATORS)


def test_more_weights_than_a_file_holds_are_refused(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hyperoffload_core.mindspore_plugin.emit.MOST_WEIGHT_BYTES", 1024)
    cell, inputs = load_source(MODEL)
    with pytest.raises(EmitError, match=r"holds 1.00 KiB; add --no-weights"):
        emit_model(cell, inputs, example.schedule, name="it", where="here", weights=True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["step.json", MODEL, "out.mindir", "--target", "onnx"], "there is no target 'onnx'; mindir is what can be"),
        (["step.json", MODEL, "out.onnx"], "out.onnx: MindSpore loads files that end in .mindir"),
        (["step.json", MODEL, "step.mindir"], "step.mindir exists; add --force to overwrite it"),
        (["step.json", MODEL, "no/out.mindir"], "does not exist"),
        (["none.json", MODEL, "out.mindir"], "none.json: not a schedule file"),
        (["step.json", f"{TESTS / 'models' / 'inference.py'}:decode", "out.mindir"], "was made for another graph"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(
    arguments: list[str],
    says: str,
    example: Example,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(example.folder)
    assert run(["emit", *arguments]) == 2
    said = capsys.readouterr().err.strip().rpartition("hyperoffload: ")[2]
    assert says in said
    assert "\n" not in said
    assert not Path("out.mindir").exists()


class Moving(nn.Cell):
    """A model that has cache operators of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = ms.Parameter(Tensor(np.eye(4, dtype=np.float32)), name="weight")
        self.to_host, self.to_device = CopyToHost(), CopyToDevice()
        self.fetch, self.write_back, self.drop = UpdateToDevice(), UpdateToRemote(), Detach()
        self.depend = ops.Depend()

    def construct(self, x: Tensor) -> Tensor:
        x = self.depend(x, self.fetch(self.weight, False))
        y = ops.tanh(ops.matmul(x, self.weight))
        host = self.to_host(y, False)
        self.write_back(self.weight, False)
        z = ops.exp(self.depend(x, host))
        self.drop(self.weight, False)
        return z + self.to_device(self.depend(host, z), False)


def test_cache_operators_a_model_has_already_are_left_out_of_its_graph() -> None:
    inputs = (Tensor(np.ones((4, 4), np.float32)),)
    graph = capture(Moving(), inputs).graph
    matmul, tanh, exp, add = graph.ops
    assert (tanh.primitive, exp.primitive, add.primitive) == ("Tanh", "Exp", "Add")
    assert set(matmul.reads) == {s.id for s in graph.storages if s.tensor_class in ("input", "weight")}
    assert set(add.reads) == {*tanh.writes, *exp.writes}
    assert tanh.id in exp.after  # which was told to wait for the copy of its result
    assert graph.notes == (
        "the model's own 5 cache operators (CopyToDevice, CopyToHost, Detach, UpdateToDevice, UpdateToRemote) are left "
        "out: a schedule says what moves",
    )
