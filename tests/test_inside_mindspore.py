"""docs/inside-mindspore.md: its example runs as written and gives the graphs it shows; what it says is refused is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from plugin_ops import skip_without_plugin

import hyperoffload as ho
from hyperoffload_core.errors import UserError
from hyperoffload_core.mindspore_plugin import toolchain

pytestmark = pytest.mark.mindspore
ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "inside-mindspore.md").read_text()
EXAMPLE = next(code for code in re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL) if "class Small" in code)
GRAPHS = re.findall(r"```\n((?:[nx]\d+ = .*\n)+)```", TEXT)
X = Tensor(np.ones((512, 64), np.float32))


def shape(graph: str) -> str:
    """Without what a session, or another place for an operator elsewhere in the graph, changes: numbers."""
    return re.sub(r"\b([xi])\d+\b", r"\1", graph)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the example said, and each file it wrote."""
    skip_without_plugin()
    folder = tmp_path_factory.mktemp("example")
    (folder / "small.py").write_text(EXAMPLE)
    environment = {**os.environ, "HYPEROFFLOAD_DUMP": "dump", "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "small.py"], cwd=folder, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return {"said": run.stdout, **{path.name: path.read_text() for path in (folder / "dump").iterdir()}}


def test_the_example_computes_the_same_as_the_plain_cell(dumped: dict[str, str]) -> None:
    assert re.match(r"True Inserted\(new_nodes=[1-9]\d*, changed_inputs=[1-9]\d*, stays={}\)$", dumped["said"])


def test_the_graphs_shown_are_what_the_command_writes(dumped: dict[str, str]) -> None:
    before, *after = GRAPHS
    assert len(after) == 2
    assert before in dumped["Small-1.before.txt"]
    for excerpt in after:
        assert shape(excerpt) in shape(dumped["Small-1.after.txt"]), dumped["Small-1.after.txt"]


class Layer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = ms.Parameter(Tensor(np.full((64, 64), 0.02, np.float32)))

    def construct(self, x):  # type: ignore[no-untyped-def]
        return ops.tanh(ops.matmul(x, self.weight))


class LazyLayer(Layer):
    @ms.lazy_inline
    def __init__(self) -> None:
        super().__init__()


class Layers(nn.Cell):
    def __init__(self, layer: type[Layer]) -> None:
        super().__init__()
        self.layers = nn.SequentialCell([layer() for _ in range(4)])

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.layers(x).sum()


class Branching(nn.Cell):
    def construct(self, x):  # type: ignore[no-untyped-def]
        return ops.tanh(x) if x.sum() > 0 else ops.sigmoid(x)


class Scaled(nn.Cell):
    def construct(self, x, *, scale=1.0):  # type: ignore[no-untyped-def]
        return ops.tanh(x) * scale


def compiled(cell: nn.Cell, limit: str = "100%", **options: Any) -> Any:
    policy = ho.Policy(memory_limit=limit, options={"effort": "fast", **options})
    return ho.compile(cell, X, policy=policy, hardware="ascend-910b", link_bandwidth="100MB/s")


@pytest.mark.usefixtures("in_graph_mode")
@pytest.mark.parametrize("cell", [lambda: Layers(LazyLayer), Branching], ids=["lazy_inline", "a branch"])
def test_graphs_of_several_parts_are_refused(cell: Any) -> None:
    with pytest.raises(UserError, match="control flow that depends on tensor values cannot be captured"):
        compiled(cell())


@pytest.mark.usefixtures("in_graph_mode")
def test_keyword_inputs_of_a_cell_and_open_shapes_are_refused() -> None:
    cell = Scaled()
    ho.attach(cell, compiled(cell))
    with pytest.raises(UserError, match="takes 'scale' by name only"):
        cell(X, scale=2.0)
    ho.detach(cell)
    cell = Layers(Layer)
    ho.attach(cell, compiled(cell))
    cell.set_inputs(Tensor(shape=[None, 64], dtype=ms.float32))
    with pytest.raises(
        UserError, match=r"did not take the schedule: node .*\[-1,64\].* compile it again for this model"
    ):
        cell(X)
    ho.detach(cell)


@pytest.mark.usefixtures("in_graph_mode")
def test_the_network_that_model_trains_can_be_attached() -> None:
    net = Layer()
    model = ms.Model(net, nn.MSELoss(), nn.Adam(net.trainable_params(), 1e-3))
    attached = ho.attach(model.train_network, ho.compile(model.train_network, (X, X), hardware="ascend-910b"))
    rows = np.ones((2 * 512, 64), np.float32)
    model.train(2, ms.dataset.NumpySlicesDataset({"x": rows, "y": rows}, shuffle=False).batch(512))
    assert attached.session is not None and attached.session.stats().steps == 4
    ho.detach(model.train_network)


@pytest.mark.usefixtures("in_graph_mode")
def test_an_attached_cell_runs_in_pynative_mode_as_it_does_there() -> None:
    cell = Layers(Layer)
    attached = ho.attach(cell, compiled(cell))
    ms.set_context(mode=ms.PYNATIVE_MODE)
    cell(X)
    assert attached.inserted is None
    ho.detach(cell)


@pytest.mark.usefixtures("in_graph_mode")
def test_a_cell_inside_another_runs_plain() -> None:
    cell = Layers(Layer)
    attached = ho.attach(cell, compiled(cell))
    nn.SequentialCell([cell])(X)
    ms.grad(cell)(X)
    assert attached.inserted is None
    ho.detach(cell)


def test_every_sentence_of_the_table_is_one_that_is_said() -> None:
    sources = [p.read_text() for kind in ("*.py", "*.cc") for p in (ROOT / "hyperoffload_core").rglob(kind)]
    code = re.sub(r'["\\]?"\s*\n?\s*[rf]*"|" \+|\s+', " ", "\n".join(sources))
    table = TEXT.partition("## When it says no")[2]
    sentences = [row.split("|")[1] for row in table.splitlines()[4:]]
    parts = [p.strip(" :,;") for s in sentences for p in re.split(r"…|;|\(a warning\)|: | names |the step stopped", s)]
    parts = [part for part in parts if len(part) > 12]
    assert len(parts) > len(sentences) / 2
    flat = re.sub(r"\W+", " ", code)
    assert [part for part in parts if re.sub(r"\W+", " ", part).strip() not in flat] == []


def test_the_supported_version_is_the_one_stated() -> None:
    assert f"MindSpore {toolchain.SUPPORTED_MINDSPORE} on CPU" in TEXT
