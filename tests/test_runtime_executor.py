"""The executor on a hand-built training step: what it computes, what it refuses, what it reports."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from runtime_examples import (
    LOSS,
    W1,
    W2,
    A,
    G,
    H,
    M,
    V,
    X,
    Y,
    batches,
    bytes_of,
    captured_model,
    everything_on_device,
    offloaded,
    schedule,
)

from hyperoffload_core.metrics import peak_bytes
from hyperoffload_core.program import CapturedModel, Constant
from hyperoffload_core.runtime.errors import ExecutionCancelledError, ExecutionError
from hyperoffload_core.runtime.executor import Executor
from hyperoffload_core.runtime.interleave import run_interleaved
from hyperoffload_core.runtime.recorder import Recorder
from hyperoffload_core.schedule import Schedule, Transfer

pytestmark = pytest.mark.mindspore

STEPS = 3


def run(plan: Schedule, captured: CapturedModel | None = None, **options) -> tuple[list[bytes], list[bytes]]:
    """Bytes of every step's results and of every persistent value after the last."""
    captured = captured or captured_model()
    with Executor(captured, plan, **options) as executor:
        executor.load()
        results = [executor.run_step(batch) for batch in batches(STEPS)]
        values = executor.values()
    return [r.tobytes() for s in results for r in s.results], [values[s].tobytes() for s in sorted(values)]


@pytest.fixture(scope="module")
def expected() -> tuple[list[bytes], list[bytes]]:
    return run(everything_on_device())


def test_the_computation_is_the_one_the_calls_say():
    captured, (x,) = captured_model(), batches(1)[0]
    a = np.maximum(x @ captured.values[W1], 0)
    y = a @ captured.values[W2]
    with Executor(captured, everything_on_device()) as executor:
        executor.load()
        result = executor.run_step((x,))
        values = executor.values()
    assert result.loss == pytest.approx(float(y.sum()), rel=1e-4)
    np.testing.assert_allclose(values[M], 0.1 * (a.T @ y), rtol=1e-3, atol=1e-3)
    assert not np.array_equal(values[W2], captured.values[W2])
    assert np.array_equal(values[W1], captured.values[W1])


@pytest.mark.parametrize("half_duplex", [False, True])
@pytest.mark.parametrize("paced", [False, True])
def test_offloading_changes_no_bit(expected, half_duplex, paced):
    assert run(offloaded(half_duplex), paced=paced, poison=True) == expected


@pytest.mark.parametrize("seed", range(4))
def test_random_delays_change_no_bit(expected, seed):
    assert run(offloaded(half_duplex=seed % 2 == 1), delays_s=0.004, seed=seed, poison=True) == expected


@pytest.mark.parametrize(
    ("storage", "taken_from"),
    [(Y, A), (H, W1), (G, A), (A, Y)],
    ids=["y over a", "h over w1", "g over a", "second stay of a over y"],
)
def test_two_stays_at_one_address_corrupt_the_result(expected, storage, taken_from):
    plan = offloaded() if storage == A else everything_on_device()
    at = next(r.offset for r in plan.residencies if r.storage == taken_from)
    wrong = [
        replace(r, offset=at) if r.storage == storage and (storage != A or r.start_ns == 8000) else r
        for r in plan.residencies
    ]
    # Poison, because a result is copied to its address only after its kernel has read everything ("g over a").
    assert run(replace(plan, residencies=tuple(wrong)), poison=True) != expected


def test_a_missing_wait_shows_when_the_copy_is_late(expected):
    plan = offloaded()
    times = tuple(replace(t, waits=()) if t.op in (4, 5) else t for t in plan.op_times)
    slow = replace(plan.hardware.link_in, latency_ns=30_000_000)
    plan = replace(plan, op_times=times, hardware=replace(plan.hardware, link_in=slow, link_out=slow))
    assert run(plan, poison=True) != expected


def test_a_prefetch_without_a_store_brings_no_valid_copy(expected):
    plan = offloaded()
    transfers = tuple(replace(t, after_transfers=()) for t in plan.transfers if t.id != 0)
    times = tuple(replace(t, waits=tuple(w for w in t.waits if w != 0)) for t in plan.op_times)
    assert run(replace(plan, transfers=transfers, op_times=times), poison=True) != expected


def in_halves(awaited: tuple[int, ...] = (1, 6), stored: tuple[int, ...] = (0, 7)) -> Schedule:
    """`a` leaves and comes back in halves, the upper one first. Its reader waits for ``awaited`` (1 and 6 bring it
    back), and both halves come back after ``stored`` (0 and 7 take it away)."""
    plan = offloaded()
    half = bytes_of(A) // 2
    parts = []
    for t in plan.transfers:
        if t.id in (0, 1):
            after = t.after_transfers if t.id == 0 else stored
            parts.append(replace(t, bytes=half, partial=True, offset_bytes=half, after_transfers=after))
            parts.append(replace(parts[-1], id=7 if t.id == 0 else 6, offset_bytes=0, start_ns=t.start_ns + 500))
        else:
            parts.append(t)
    times = tuple(replace(t, waits=awaited) if t.op == 4 else t for t in plan.op_times)
    return replace(plan, transfers=tuple(parts), op_times=times)


@pytest.mark.parametrize("seed", range(2))
def test_a_storage_may_move_in_parts(expected, seed):
    assert run(in_halves(), paced=False, poison=True) == expected
    assert run(in_halves(), delays_s=0.004, seed=seed, poison=True) == expected


@pytest.mark.parametrize(
    ("plan", "late"),
    [(in_halves(awaited=(1,)), 6), (in_halves(stored=(0,)), 7)],
    ids=["its reader waits for one half", "it comes back after one half is stored"],
)
def test_a_storage_is_there_only_when_all_its_parts_are(expected, plan, late):
    """The half that is not waited for comes as late as only a missing edge allows."""
    transfers = tuple(replace(t, after_ops=(4,)) if t.id == late else t for t in plan.transfers)
    assert run(replace(plan, transfers=transfers), paced=False, poison=True) != expected


@pytest.mark.parametrize("delays_s", [0.0, 0.003])
def test_the_profile_tells_what_happened(delays_s):
    plan = offloaded()
    with Executor(captured_model(), plan, delays_s=delays_s) as executor:
        executor.load()
        recorder = Recorder(plan, STEPS)
        results = [executor.run_step(batch, recorder=recorder) for batch in batches(STEPS)]
    profile = recorder.profile("a test")
    assert profile.kind == "measured" and profile.step_count == STEPS
    assert list(profile.losses) == [r.loss for r in results]
    assert list(profile.steps.step_ns) == [r.step_ns for r in results]
    assert list(profile.ops.op) == list(plan.order) * STEPS
    assert (profile.ops.start_ns >= 0).all() and (profile.ops.end_ns > profile.ops.start_ns).all()
    assert (profile.ops.copy_ns <= profile.ops.end_ns - profile.ops.start_ns).all()
    assert set(profile.steps.peak_bytes) == {plan.metrics.reserved_bytes}
    assert set(profile.steps.bytes_out) == {plan.metrics.bytes_out}
    assert set(profile.steps.bytes_in) == {plan.metrics.bytes_in}
    assert (profile.steps.compute_ns + profile.steps.blocking_ns <= profile.steps.step_ns).all()
    for step in range(STEPS):
        check_events_obey_the_plan(profile, plan, step)


def check_events_obey_the_plan(profile, plan: Schedule, step: int) -> None:
    op = profile.ops.step == step
    transfer = profile.transfers.step == step
    op_end = dict(zip(profile.ops.op[op], profile.ops.end_ns[op], strict=True))
    op_start = dict(zip(profile.ops.op[op], profile.ops.start_ns[op], strict=True))
    start = dict(zip(profile.transfers.transfer[transfer], profile.transfers.start_ns[transfer], strict=True))
    end = dict(zip(profile.transfers.transfer[transfer], profile.transfers.end_ns[transfer], strict=True))
    for t in plan.transfers:
        assert all(op_end[o] <= start[t.id] for o in t.after_ops)
        assert all(end[o] <= start[t.id] for o in t.after_transfers)
        link = plan.hardware.link_in if t.kind == "prefetch" else plan.hardware.link_out
        assert end[t.id] - start[t.id] >= t.bytes * 1_000_000_000 // link.bytes_per_s
    for time_of in plan.op_times:
        assert all(end[w] <= op_start[time_of.op] for w in time_of.waits)
    for link in plan.link_transfers():
        for one, two in pairwise(link):
            assert end[one.id] <= start[two.id]
    stay = profile.lifetimes.step == step
    columns = (getattr(profile.lifetimes, n)[stay] for n in ("offset", "bytes", "start_ns", "end_ns"))
    offset, size, begin, finish = columns
    for i in range(len(offset)):
        for j in range(i):
            apart_in_time = finish[i] <= begin[j] or finish[j] <= begin[i]
            apart_in_space = offset[i] + size[i] <= offset[j] or offset[j] + size[j] <= offset[i]
            assert apart_in_time or apart_in_space
    assert peak_bytes(begin, finish, size) <= plan.metrics.reserved_bytes


def test_half_duplex_never_moves_both_ways_at_once():
    plan = offloaded(half_duplex=True)
    with Executor(captured_model(), plan, delays_s=0.002) as executor:
        executor.load()
        recorder = Recorder(plan, 1)
        executor.run_step(batches(1)[0], recorder=recorder)
    events = recorder.profile("a test").transfers
    order = np.argsort(events.start_ns)
    assert (events.start_ns[order][1:] >= events.end_ns[order][:-1]).all()


def test_an_unpaced_copy_is_quicker_than_a_slow_link():
    plan = offloaded()
    slow = replace(plan.hardware.link_in, latency_ns=20_000_000)
    plan = replace(plan, hardware=replace(plan.hardware, link_in=slow))
    took = {}
    for paced in (True, False):
        with Executor(captured_model(), plan, paced=paced) as executor:
            executor.load()
            took[paced] = min(executor.run_step(b).step_ns for b in batches(3))
    assert took[True] >= 60_000_000 > took[False]


def test_a_failing_kernel_is_one_error_that_names_the_op():
    captured = captured_model()
    calls = list(captured.program.calls)
    calls[4] = replace(calls[4], arguments=(*calls[4].arguments[:2], Constant(False), Constant(False)))
    captured = replace(captured, program=replace(captured.program, calls=tuple(calls)))
    with Executor(captured, offloaded()) as executor:
        executor.load()
        with pytest.raises(ExecutionError, match=r"op 'MatMul-4' \(MatMul\) failed: .*dimensions"):
            executor.run_step(batches(1)[0])
        with pytest.raises(ExecutionError, match="mixture of steps"):
            executor.run_step(batches(1)[0])


def test_a_result_of_another_shape_than_planned_is_refused():
    captured = captured_model()
    calls = list(captured.program.calls)
    calls[3] = replace(calls[3], arguments=(calls[3].arguments[0], Constant((0,)), *calls[3].arguments[2:]))
    captured = replace(captured, program=replace(captured.program, calls=tuple(calls)))
    with Executor(captured, everything_on_device()) as executor:
        executor.load()
        with pytest.raises(
            ExecutionError, match=r"op 'ReduceSum-3' .* returned float32\[16\] .* float32\[\] was planned"
        ):
            executor.run_step(batches(1)[0])


def test_an_error_in_a_copy_thread_surfaces_and_stops_the_step(monkeypatch):
    with Executor(captured_model(), offloaded()) as executor:
        executor.load()

        def broken(_copy, _start_ns):
            raise OSError("the link is down")

        monkeypatch.setattr(executor._threads[0], "_move", broken)
        with pytest.raises(ExecutionError, match="the link is down"):
            executor.run_step(batches(1)[0])


def test_cancelling_stops_between_two_ops():
    asked = iter([False, False, False, True])
    with Executor(captured_model(), offloaded()) as executor:
        executor.load()
        with pytest.raises(ExecutionCancelledError):
            executor.run_step(batches(1)[0], cancelled=lambda: next(asked))


def test_a_deadlock_is_reported_with_what_is_awaited():
    plan = offloaded()
    transfers = tuple(replace(t, after_ops=(5,)) if t.id == 1 else t for t in plan.transfers)
    with Executor(captured_model(), replace(plan, transfers=transfers), timeout_s=0.1) as executor:
        executor.load()
        with pytest.raises(
            ExecutionError, match=r"op 'MatMul-4' has waited .* for transfer 1 \(prefetch of 'a'\)"
        ) as e:
            executor.run_step(batches(1)[0])
    assert "transfer 1 (prefetch) waits for op 'AdamWeightDecay-5'" in str(e.value)


def test_no_thread_outlives_the_executor():
    before = threading.active_count()
    with Executor(captured_model(), offloaded()) as executor:
        executor.load()
        executor.run_step(batches(1)[0])
        assert threading.active_count() == before + 2
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_more_memory_than_there_is_is_refused_before_it_is_touched():
    plan = everything_on_device()
    plan = replace(plan, metrics=replace(plan.metrics, reserved_bytes=1 << 50))
    with pytest.raises(
        ExecutionError, match=r"the device arena needs 1,125,899,906,842,624 bytes of memory and [\d,]+ are free"
    ):
        Executor(captured_model(), plan)


def test_a_schedule_of_another_graph_is_refused():
    captured = captured_model()
    other = replace(captured.graph, ops=captured.graph.ops[:-1])
    with pytest.raises(ExecutionError, match="not for"):
        Executor(replace(captured, graph=other), everything_on_device())


def test_an_op_outside_its_storages_stays_is_refused():
    plan = everything_on_device()
    short = tuple(replace(r, end_ns=5000) if r.storage == Y else r for r in plan.residencies)
    with pytest.raises(ExecutionError, match="op 'ReduceSum-3' uses storage 'y' from 6000 to 7000 ns, when it is not"):
        Executor(captured_model(), replace(plan, residencies=short))


def test_wrong_inputs_and_missing_values_are_said_in_one_sentence():
    captured, plan = captured_model(), everything_on_device()
    with Executor(captured, plan) as executor:
        with pytest.raises(ExecutionError, match="load"):
            executor.run_step(batches(1)[0])
        with pytest.raises(ExecutionError, match="optimizer_state 'm' has no value"):
            executor.load({W1: captured.values[W1], W2: captured.values[W2]})
        executor.load()
        with pytest.raises(ExecutionError, match="takes 1 inputs, 0 were given"):
            executor.run_step(())
        with pytest.raises(ExecutionError, match=r"input 0 is float64\[64, 32\]; .* float32\[64, 32\]"):
            executor.run_step((np.zeros((64, 32)),))


def test_interleaved_executors_do_not_disturb_each_other(expected):
    captured = captured_model()
    plans = {"none": everything_on_device(), "offloaded": offloaded()}
    seen: list[tuple[str, int]] = []
    executors = {name: Executor(captured, plan) for name, plan in plans.items()}
    for executor in executors.values():
        executor.load()
    recorders = run_interleaved(
        executors, batches(STEPS), STEPS - 1, warm_up=1, on_step=lambda name, step, _: seen.append((name, step))
    )
    for executor in executors.values():
        values = executor.values()
        assert [values[s].tobytes() for s in sorted(values)] == expected[1]
        executor.close()
    assert {name: r.recorded for name, r in recorders.items()} == {"none": STEPS - 1, "offloaded": STEPS - 1}
    assert sorted(seen) == sorted((n, s) for n in plans for s in range(-1, STEPS - 1))


def test_the_pool_holds_only_what_ever_leaves_the_device():
    with Executor(captured_model(), offloaded()) as executor:
        assert executor.pool_bytes == bytes_of(A) + bytes_of(M) + bytes_of(V)
        assert executor.arena_bytes == offloaded().metrics.reserved_bytes
    with Executor(captured_model(), everything_on_device()) as executor:
        assert executor.pool_bytes == 0


def test_a_storage_that_ends_the_step_elsewhere_than_it_starts_is_refused():
    plan = everything_on_device()
    at = plan.metrics.reserved_bytes
    stays = []
    for r in plan.residencies:
        if r.storage == W2:
            stays += [replace(r, end_ns=6000), replace(r, start_ns=8000, offset=at)]
        else:
            stays.append(r)
    moves = [
        Transfer(0, "store", W2, bytes_of(W2), 5000, 6000, after_ops=(2,)),
        Transfer(1, "prefetch", W2, bytes_of(W2), 8000, 9000, after_transfers=(0,)),
    ]
    with pytest.raises(ExecutionError, match="storage 'w2' is at home on the device at address"):
        Executor(captured_model(), schedule(stays, moves, {5: (1,)}))


def test_graph_results_come_from_where_the_storages_end():
    with Executor(captured_model(), offloaded()) as executor:
        executor.load()
        result = executor.run_step(batches(1)[0])
        assert result.results[0].shape == () and result.loss == float(result.results[0])
        assert np.array_equal(result.results[1], executor.values()[W2])
        assert LOSS not in executor.values() and X not in executor.values() and V in executor.values()
