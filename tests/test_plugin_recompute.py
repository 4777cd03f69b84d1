"""Schedules that run ops again, inside MindSpore: clones of nodes that MindSpore keeps apart, and the same bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from hyperoffload_core.capture import capture
from hyperoffload_core.cost import roofline_durations
from hyperoffload_core.hardware import load_hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.mindspore_plugin.attach import attach, detach
from hyperoffload_core.mindspore_plugin.emit import emit_model
from hyperoffload_core.mindspore_plugin.nodes import read_live_graph
from hyperoffload_core.passes.recomputation import recompute, recompute_candidates
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.verifier import verify
from tests.attach_models import batches, halves, token_batches, training
from tests.naive_schedule import naive_schedule

pytestmark = [pytest.mark.mindspore, pytest.mark.usefixtures("in_graph_mode")]


def recomputed(graph: Graph, every: int = 1, moved: slice = slice(0)) -> Schedule:
    """Each ``every``-th gap that recomputation can free is freed by it; ``moved`` storages leave in all their gaps."""
    hardware = load_hardware("ascend-910b", {}).with_link_bandwidth(4_000_000_000)
    durations = roofline_durations(graph, hardware).ns
    again = recompute(graph, [c.recomputation for c in recompute_candidates(graph, durations)[::every]])
    gaps = [(s.id, gap) for s in again.storages[moved] for gap in range(len(again.accesses[s.id]) - 1)]
    schedule = naive_schedule(again, hardware=hardware, durations_ns=[durations[o] for o in again.origins], gaps=gaps)
    verify(schedule, graph)
    return schedule


def bits(result: Any) -> list[bytes]:
    return [b for r in result for b in bits(r)] if isinstance(result, tuple | list) else [result.asnumpy().tobytes()]


def three_steps(cell: Any, inputs: Sequence[Any]) -> tuple[list[list[bytes]], dict[str, bytes]]:
    results = [bits(cell(*inputs[n % len(inputs)])) for n in range(3)]
    return results, {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}


@pytest.mark.parametrize(
    ("build", "inputs"), [(training, batches()), (halves, token_batches())], ids=["float32", "float16"]
)
def test_steps_that_recompute_beside_transfers_are_the_same_bits_whatever_copies_take(
    build: Callable[[], Any], inputs: Sequence[Any]
) -> None:
    plain, step = build(), build()
    graph = capture(plain, inputs[0]).graph
    schedule = recomputed(graph, every=2, moved=slice(1, None, 2))
    copies = {s.id for s in schedule.graph.storages if s.recompute_of is not None}
    assert len(schedule.graph.ops) > len(graph.ops) + 5
    assert copies & {t.storage for t in schedule.transfers}, "copies move too"
    attached = attach(step, schedule, marks=True, random_delay_ns=1_000_000)
    assert three_steps(step, inputs) == three_steps(plain, inputs)
    assert attached.session is not None and attached.session.stats().bytes_in > 0
    detach(step)


class Twice(nn.Cell):
    """Two results of Tanh and of a sum of pieces are far from their first use."""

    def construct(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = ops.tanh(x)
        low, high = ops.split(ops.sin(x), 32, axis=1)
        z = ops.exp(ops.exp(y) + 1.0).sum()
        return z + y, (low * z).sum() + high


def test_mindspore_runs_what_is_recomputed_as_often_as_the_schedule_says(tmp_path: Path) -> None:
    cell, x = Twice(), Tensor(np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64))
    plain = bits(cell(x))
    schedule = recomputed(capture(cell, (x,)).graph)
    wanted = {name: sum(op.primitive == name for op in schedule.graph.ops) for name in ("Tanh", "Sin", "Exp")}
    assert max(wanted.values()) > 2
    ms.set_context(save_graphs=2, save_graphs_path=str(tmp_path))
    try:
        attach(cell, schedule)
        assert bits(cell(x)) == plain
    finally:
        ms.set_context(save_graphs=0)
        detach(cell)
    *_, last = sorted(tmp_path.rglob("*task_emit*.ir"))
    found = re.findall(r"= (?:PrimFunc_)?(\w+)\(", last.read_text())
    assert {name: found.count(name) for name in wanted} == wanted


def test_a_mindir_file_holds_the_recomputed_ops_in_the_schedules_order() -> None:
    step, inputs = training(), batches()[0]
    schedule = recomputed(capture(step, inputs, name="step").graph, every=2, moved=slice(1, None, 2))
    model = emit_model(step, inputs, schedule, name="step", where="here", weights=False).model
    back = read_live_graph(model, step, "back")
    in_file = sorted(range(len(back.op_nodes)), key=lambda op: back.op_nodes[op])
    assert len(in_file) == len(schedule.graph.ops)
    assert facts(back.graph, in_file) == facts(schedule.graph, schedule.order)


def facts(graph: Graph, order: Sequence[int]) -> list[tuple[Any, ...]]:
    """What ops are and what they access: storages by what they are, parameters by name. Ops of constants, which nothing
    holds back, are left out."""
    found = []
    for op in order:
        accesses = [graph.storages[s] for s in (*graph.ops[op].reads, *graph.ops[op].writes)]
        if any(graph.storages[s].tensor_class != "constant" for s in graph.ops[op].reads):
            shown = sorted((s.shape, s.dtype, s.name if s.persistent else "") for s in accesses)
            found.append((graph.ops[op].primitive, shown))
    return found
