"""Schedules inside MindSpore for models with what the graphs of others lack: the same bits, under random delays.

Each of them was once computed wrongly or refused: updates in place that MindSpore's backend makes an Assign, copies it
adds after the pass, sums over tuples, views, ops of constants only, nested results, half precision.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest

import hyperoffload_core.interface as ho
from hyperoffload_core.capture import capture, load_source
from hyperoffload_core.mindspore_plugin.attach import attach, detach

pytestmark = [pytest.mark.mindspore, pytest.mark.usefixtures("in_graph_mode")]
MODELS = Path(__file__).parent / "models"


def arrays(result: Any) -> list[bytes]:
    return [a for r in result for a in arrays(r)] if isinstance(result, tuple | list) else [result.asnumpy().tobytes()]


def three_steps(cell: Any, inputs: Any) -> tuple[list[list[bytes]], dict[str, bytes]]:
    results = [arrays(cell(*inputs)) for _ in range(3)]
    return results, {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}


@pytest.mark.parametrize(
    ("reference", "limit"),
    [
        ("optimizers.py:sgd", "50%"),
        ("functions.py:build", "60%"),
        ("mlp.py:half", "80%"),
        ("mlp.py:half_tanh", "85%"),
        ("inference.py:in_place", "70%"),
        ("inference.py:counting", "70%"),
        ("inference.py:views", "80%"),
        ("inference.py:several", "80%"),
    ],
)
def test_three_steps_are_the_same_bits(reference: str, limit: str) -> None:
    cell, inputs = load_source(str(MODELS / reference))
    start = {p.name: p.asnumpy().copy() for p in cell.get_parameters()}
    plain = three_steps(cell, inputs)
    for parameter in cell.get_parameters():
        parameter.set_data(ms.Tensor(np.array(start[parameter.name])))
    schedule = ho.compile(capture(cell, inputs, name=reference), limit=limit, link_bandwidth="1GB/s")
    assert schedule.transfers
    attached = attach(cell, schedule, random_delay_ns=2_000_000)
    try:
        assert three_steps(cell, inputs) == plain
        assert attached.session is not None and attached.session.stats().steps == 3
    finally:
        detach(cell)
