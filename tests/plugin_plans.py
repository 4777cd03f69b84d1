"""Plans for small cells, and what a cell computes under one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from hyperoffload_core.errors import UserError
from hyperoffload_core.mindspore_plugin import passes
from hyperoffload_core.mindspore_plugin.edits import Edit, NewNode, Plan, SetInput
from hyperoffload_core.mindspore_plugin.nodes import live_graph

X = np.random.default_rng(0).standard_normal((4, 6), dtype=np.float32)


class Small(nn.Cell):
    """Node 0 Load, 1 MatMulExt, 2 ReLU, 3 Mul, then the sum and what returns it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(Tensor(np.linspace(-1, 1, 36, dtype=np.float32).reshape(6, 6)), name="weight")

    def construct(self, x):
        y = ops.relu(ops.matmul(x, self.weight))
        return (y * x).sum()


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
