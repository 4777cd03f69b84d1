from dataclasses import replace

import numpy as np
import pytest

from hyperoffload_core.cost import CostError, measured_durations, moved_bytes, roofline_durations
from hyperoffload_core.hardware import load_hardware
from hyperoffload_core.ir import Graph, Op, Storage
from hyperoffload_core.recording import OpEvents, Profile, StepNumbers, StorageLifetimes, TransferEvents
from hyperoffload_core.schedule import Metrics, Schedule

MIB = 1 << 20


def _op(
    id: int, primitive: str, reads: tuple[int, ...], writes: tuple[int, ...], after: tuple[int, ...], flops: int
) -> Op:
    return Op(id, f"op{id}", primitive, "Default/net", "forward", reads, writes, after, flops=flops)


GRAPH = Graph(
    "tiny",
    (
        _op(0, "Gather", (0,), (1,), (), 0),
        _op(1, "MatMul", (1, 0), (2,), (0,), 10**12),
        _op(2, "Mul", (2,), (2,), (1,), 0),
    ),
    (
        Storage(0, "table", 1024 * MIB, "weight", persistent=True),
        Storage(1, "rows", MIB, "activation"),
        Storage(2, "result", MIB, "output"),
    ),
)


def test_a_matrix_op_takes_compute_time_and_a_vector_op_memory_time() -> None:
    hardware = load_hardware("ascend-910c")
    compute = hardware.compute
    assert compute is not None
    durations = roofline_durations(GRAPH, hardware)
    matmul = 10**12 / (353.9e12 * 0.7) * 1e9
    assert durations.ns[1] == pytest.approx(matmul + compute.op_overhead_ns, abs=1)
    vector = 2 * MIB / (1.6e12 * 0.6) * 1e9
    assert durations.ns[2] == pytest.approx(vector + compute.op_overhead_ns, abs=1)
    assert "Ascend 910C" in durations.source


def test_picking_rows_does_not_read_the_table() -> None:
    assert moved_bytes(GRAPH, GRAPH.ops[0]) == 3 * MIB


def test_writing_a_row_into_a_cache_moves_the_row_only() -> None:
    """A cache of 1 GiB, 4 KiB of keys and a slot number: keys and number are read, the keys' bytes written."""
    storages = (
        Storage(0, "cache", 1024 * MIB, "kv_cache", persistent=True),
        Storage(1, "keys", 4096, "activation"),
        Storage(2, "slot", 8, "input"),
    )
    update = _op(0, "ScatterUpdate", (0, 1, 2), (0,), (), 0)
    assert moved_bytes(Graph("decode", (update,), storages), update) == 2 * (4096 + 8)
    whole = replace(update, primitive="Assign", reads=(1,))
    assert moved_bytes(Graph("decode", (whole,), storages), whole) == 1024 * MIB + 4096


def test_two_caches_written_by_one_op_move_what_they_are_given() -> None:
    storages = (
        Storage(0, "key_cache", 1024 * MIB, "kv_cache", persistent=True),
        Storage(1, "value_cache", 1024 * MIB, "kv_cache", persistent=True),
        Storage(2, "key", 2048, "activation"),
        Storage(3, "value", 2048, "activation"),
    )
    update = _op(0, "ReshapeAndCache", (2, 3, 0, 1), (0, 1), (), 0)
    assert moved_bytes(Graph("decode", (update,), storages), update) == 2 * 4096


def test_a_hardware_without_compute_numbers_has_no_roofline() -> None:
    with pytest.raises(CostError, match="must be measured"):
        roofline_durations(GRAPH, replace(load_hardware("h200"), compute=None))


def _profile(durations: list[list[int]]) -> Profile:
    """A measured profile of one row of op durations per step."""
    schedule = Schedule(
        GRAPH, (1, 1, 1), "none", load_hardware("h200"), {}, "none", 1, (0, 1, 2), (), (), (), ("device",) * 3,
        Metrics(1, 1, 1, 1, 0, 0, 0, 0, 1),
    )  # fmt: skip
    elapsed = np.array(durations, dtype=np.int64)
    starts = np.cumsum(elapsed, axis=1) - elapsed
    steps, ops = np.indices(elapsed.shape, dtype=np.int64)
    none = np.empty(0, np.int64)
    zeros = np.zeros(len(durations), np.int64)
    return Profile(
        "measured",
        schedule,
        "by hand",
        OpEvents(
            steps.ravel(), ops.ravel(), starts.ravel(), (starts + elapsed).ravel(), np.zeros(elapsed.size, np.int64)
        ),
        TransferEvents(none, none, none, none, none, none, none),
        StorageLifetimes(none, none, none, none, none, none),
        StepNumbers(elapsed.sum(axis=1), elapsed.sum(axis=1), zeros, zeros, zeros, zeros, zeros),
    )


def test_measured_durations_are_medians_that_add_up_to_the_median_step() -> None:
    durations = measured_durations([_profile([[5, 70, 9], [4, 90, 100]]), _profile([[6, 80, 8]])])
    medians, median_step = (5, 80, 9), 94
    assert durations.ns == medians
    assert sum(durations.ns) == median_step
    assert "median of 3 steps" in durations.source


def test_a_rare_slow_op_in_every_step_is_spread_over_the_ops() -> None:
    durations = measured_durations([_profile([[30, 10, 10], [10, 30, 10], [10, 10, 30]])])
    assert durations.ns == (17, 17, 17)


def test_launching_an_op_is_part_of_its_time() -> None:
    profile = _profile([[5, 70, 9]])
    late = replace(profile.ops, start_ns=profile.ops.start_ns + np.array([0, 3, 0]))
    assert measured_durations([replace(profile, ops=late)]).ns == (5, 70, 9)


def test_an_op_without_time_still_has_a_duration() -> None:
    assert measured_durations([_profile([[0, 1, 1]])]).ns[0] == 1


def test_a_prediction_is_no_measurement() -> None:
    with pytest.raises(CostError, match="prediction"):
        measured_durations([replace(_profile([[1, 1, 1]]), kind="predicted")])


def test_an_op_without_an_event_is_named() -> None:
    whole = _profile([[1, 2, 3]])
    ops = whole.ops
    cut = replace(whole, ops=OpEvents(ops.step[:2], ops.op[:2], ops.start_ns[:2], ops.end_ns[:2], ops.copy_ns[:2]))
    with pytest.raises(CostError, match="'op2'"):
        measured_durations([cut])
