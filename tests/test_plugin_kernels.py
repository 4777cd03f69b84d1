"""The kernels of the cache operators, called as MindSpore calls them: bytes, order, pace, memory, failures."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from plugin_ops import FAST, Steps, built_kernels, call_op, events_of

from hyperoffload_core.hardware import Link
from hyperoffload_core.mindspore_plugin.kernels import EVENT_KINDS, KernelError, Kernels, Session, open_session
from hyperoffload_core.mindspore_plugin.toolchain import SOURCES, find_compiler

ROOT = Path(__file__).parent.parent
PAGE = 4096
MB = 1 << 20


@pytest.fixture(scope="module")
def kernels() -> Kernels:
    return built_kernels()


@pytest.fixture
def opened(kernels: Kernels) -> Iterator[Callable[..., Steps]]:
    """Opens sessions that are closed when the test is over."""
    sessions: list[Session] = []

    def open_steps(pool_bytes: int = 16 * MB, link: Link = FAST, **options: Any) -> Steps:
        options = {"paced": False} | options
        sessions.append(open_session(kernels, pool_bytes, link_out=link, link_in=link, **options))
        return Steps(sessions[-1])

    yield open_steps
    for session in sessions:
        session.close()


def numbers(count: int, seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random(count, np.float32)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


# Tensors


@pytest.mark.parametrize("place", ["shared memory", "file"])
@pytest.mark.parametrize("count", [0, 1, 1025, 3_000_001])
def test_a_tensor_comes_back_as_it_was_stored(
    opened: Callable[..., Steps], tmp_path: Path, place: str, count: int
) -> None:
    steps = opened(folder=tmp_path if place == "file" else None)
    steps.session.tensor_command(1, "store", 4 * count, 512)
    steps.session.tensor_command(2, "prefetch", 4 * count, 512)
    x, y = numbers(count), np.empty(count, np.float32)
    expected = x.copy()
    steps.begin()
    steps.store(1, x)
    steps.store_done(1, x)
    x[:] = -1
    steps.prefetch(2, y)
    steps.prefetch_done(2, y)
    np.testing.assert_array_equal(y, expected)
    steps.end()


def test_tensors_of_many_commands_and_steps_under_random_delays_are_never_mixed_up(
    opened: Callable[..., Steps],
) -> None:
    for seed, half_duplex in [(1, False), (2, True)]:
        steps = opened(half_duplex=half_duplex, random_delay_ns=1_000_000, seed=seed)
        # Odd tensors share one slot: each is stored only when the one before has been fetched.
        slots = [10_000 * i if i % 2 == 0 else 500_000 for i in range(12)]
        for i, slot in enumerate(slots):
            steps.session.tensor_command(i, "store", 4000, slot)
            steps.session.tensor_command(100 + i, "prefetch", 4000, slot)
            steps.session.command_after(100 + i, [i])
            if i >= 3 and i % 2:
                steps.session.command_after(i, [98 + i])
        for step in range(6):
            tensors = [numbers(1000, 50 * step + i) for i in range(12)]
            fetched = [np.empty_like(x) for x in tensors]
            steps.begin()
            for i, (x, y) in enumerate(zip(tensors, fetched, strict=True)):
                steps.store(i, x)
                steps.prefetch(100 + i, y)
            for i, y in reversed(list(enumerate(fetched))):
                steps.prefetch_done(100 + i, y)
            for x, y in zip(tensors, fetched, strict=True):
                np.testing.assert_array_equal(x, y)
            steps.end()


def test_the_memory_of_a_stored_tensor_goes_back(opened: Callable[..., Steps]) -> None:
    steps = opened(32 * MB)
    x = np.ones(32 * MB, np.uint8)
    steps.session.tensor_command(1, "store", x.nbytes, 0)
    steps.begin()
    steps.store(1, x)
    before = resident_bytes()
    steps.store_done(1, x)
    assert before - resident_bytes() > 0.9 * x.nbytes
    steps.end()


def test_the_memory_of_a_released_tensor_goes_back_and_its_neighbours_keep_theirs(
    opened: Callable[..., Steps],
) -> None:
    steps = opened()
    block = np.ones(32 * MB, np.uint8)
    steps.begin()
    before = resident_bytes()
    steps.release(1, block[100:-100])
    assert before - resident_bytes() > 0.9 * block.nbytes
    assert block[:100].all()
    assert block[-100:].all()
    steps.end()


# Order and pace


@pytest.mark.parametrize("kind", ["store", "prefetch"])
def test_a_paced_copy_takes_as_long_as_the_link_would(opened: Callable[..., Steps], kind: str) -> None:
    steps = opened(link=Link(200_000_000, 1_000_000), paced=True)
    x = np.zeros(8_000_000, np.uint8)
    steps.session.tensor_command(1, kind, x.nbytes, 0)  # type: ignore[arg-type]
    link_ns = 40_000_000 + 1_000_000
    taken_ns: list[int] = []
    while not taken_ns or (min(taken_ns) > 1.2 * link_ns and len(taken_ns) < 10):  # others may use the machine
        steps.begin()
        if kind == "store":
            steps.store(1, x)
        else:
            steps.prefetch(1, x)
        steps.end()
        event = events_of(steps.session.take_events(), kind)[1]
        taken_ns.append(int(event["end_ns"] - event["start_ns"]))
    assert link_ns - 40_000 <= min(taken_ns) <= 1.2 * link_ns


def test_transfers_of_one_link_run_one_after_the_other_as_they_were_issued(opened: Callable[..., Steps]) -> None:
    steps = opened(random_delay_ns=500_000)
    x = numbers(1000)
    for i in range(8):
        steps.session.tensor_command(i, "store", 4000, 4000 * i)
    steps.begin()
    for i in (3, 1, 7, 0, 5):
        steps.store(i, x)
    steps.end()
    stores = list(events_of(steps.session.take_events(), "store").values())
    assert [e["index"] for e in stores] == [3, 1, 7, 0, 5]
    for first, second in pairwise(stores):
        assert first["start_ns"] <= first["end_ns"] <= second["start_ns"]


@pytest.mark.parametrize("half_duplex", [False, True])
def test_the_two_directions_overlap_unless_the_link_is_half_duplex(
    opened: Callable[..., Steps], half_duplex: bool
) -> None:
    steps = opened(link=Link(20_000_000, 0), paced=True, half_duplex=half_duplex)
    x, y = np.zeros(2_000_000, np.uint8), np.zeros(2_000_000, np.uint8)
    steps.session.tensor_command(1, "store", x.nbytes, 0)
    steps.session.tensor_command(2, "prefetch", y.nbytes, 4 * MB)
    steps.begin()
    steps.store(1, x)
    steps.prefetch(2, y)
    steps.end()
    events = steps.session.take_events()
    overlap = events_of(events, "prefetch")[2]["start_ns"] < events_of(events, "store")[1]["end_ns"]
    assert overlap is np.bool_(not half_duplex)


def test_a_transfer_waits_for_those_it_comes_after(opened: Callable[..., Steps]) -> None:
    steps = opened(link=Link(100_000_000, 0), paced=True)
    x, y = np.full(2_000_000, 7, np.uint8), np.zeros(2_000_000, np.uint8)
    steps.session.tensor_command(1, "store", x.nbytes, 0)
    steps.session.tensor_command(2, "prefetch", y.nbytes, 0)
    steps.session.command_after(2, [1])
    steps.begin()
    steps.prefetch(2, y)  # issued first
    steps.store(1, x)
    steps.prefetch_done(2, y)
    assert (y == 7).all()
    steps.end()
    events = steps.session.take_events()
    assert events_of(events, "prefetch")[2]["start_ns"] >= events_of(events, "store")[1]["end_ns"]


def test_starting_a_transfer_returns_before_it_has_ended(opened: Callable[..., Steps]) -> None:
    steps = opened(link=Link(20_000_000, 0), paced=True)
    x = np.zeros(2_000_000, np.uint8)
    steps.session.tensor_command(1, "store", x.nbytes, 0)
    steps.begin()
    steps.store(1, x)
    steps.mark(0)
    steps.end()
    events = steps.session.take_events()
    assert events_of(events, "mark")[0]["end_ns"] < events_of(events, "store")[1]["end_ns"]


# Regions


def test_a_region_keeps_address_and_contents_wherever_it_is(opened: Callable[..., Steps], tmp_path: Path) -> None:
    steps = opened(folder=tmp_path)
    region = steps.session.region(5_000_001, 3 * PAGE)
    address, contents = region.memory.ctypes.data, np.random.default_rng(0).integers(0, 256, 5_000_001, np.uint8)
    region.memory[:] = contents
    for kind, index in (("store", 1), ("prefetch", 2), ("detach", 3), ("prefetch", 4)):
        steps.session.region_command(index, kind, region)  # type: ignore[arg-type]
    for _ in range(2):
        steps.begin()
        steps.store(1)
        steps.store_done(1)
        np.testing.assert_array_equal(region.memory, contents)
        steps.prefetch(2)
        steps.prefetch_done(2)
        np.testing.assert_array_equal(region.memory, contents)
        steps.detach(3)
        steps.detach_done(3)
        np.testing.assert_array_equal(region.memory, contents)
        steps.prefetch(4)
        steps.end()
        np.testing.assert_array_equal(region.memory, contents)
    assert region.memory.ctypes.data == address


def test_what_is_written_while_a_region_is_in_the_pool_is_there_when_it_comes_back(
    opened: Callable[..., Steps],
) -> None:
    steps = opened()
    region = steps.session.region(100_000, 0)
    region.to_pool()
    region.memory[:] = 9
    steps.session.region_command(1, "prefetch", region)
    steps.begin()
    steps.prefetch(1)
    steps.end()
    assert (region.memory == 9).all()
    region.to_pool()
    region.memory[5] = 10
    region.to_device()
    assert region.memory[5] == 10
    assert region.memory.sum() == 9 * 100_000 + 1


def test_the_memory_of_a_region_in_the_pool_is_not_resident(opened: Callable[..., Steps]) -> None:
    steps = opened(32 * MB)
    region = steps.session.region(32 * MB, 0)
    region.memory[:] = 1
    steps.session.region_command(1, "store", region)
    steps.session.region_command(2, "prefetch", region)
    on_device = resident_bytes()
    steps.begin()
    steps.store(1)
    steps.store_done(1)
    in_pool = resident_bytes()
    assert on_device - in_pool > 0.95 * 32 * MB
    assert steps.session.stats().device_region_bytes == 0
    steps.prefetch(2)
    steps.end()
    assert resident_bytes() - in_pool > 0.95 * 32 * MB
    assert steps.session.stats().device_region_bytes == 32 * MB


def test_detaching_what_the_pool_has_not_writes_it_first(opened: Callable[..., Steps]) -> None:
    steps = opened()
    region = steps.session.region(PAGE, 0)
    steps.session.region_command(1, "prefetch", region)
    steps.session.region_command(2, "detach", region)
    region.memory[:] = 5
    region.to_pool()
    region.to_device()
    region.memory[:] = 6  # between steps, say by a checkpoint that is loaded
    steps.begin()
    steps.prefetch(1)
    steps.prefetch_done(1)
    steps.detach(2)
    steps.end()
    assert (region.memory == 6).all()
    assert steps.session.stats().bytes_out == PAGE


def test_detaching_what_the_pool_has_moves_no_bytes(opened: Callable[..., Steps]) -> None:
    steps = opened()
    region = steps.session.region(PAGE, 0)
    steps.session.region_command(1, "prefetch", region)
    steps.session.region_command(2, "detach", region)
    region.memory[:] = 5
    region.to_pool()
    steps.begin()
    steps.prefetch(1)
    steps.prefetch_done(1)
    steps.detach(2)
    steps.end()
    assert (region.memory == 5).all()
    assert (steps.session.stats().bytes_in, steps.session.stats().bytes_out) == (PAGE, 0)


def test_a_region_outlives_its_session_and_goes_with_its_last_array(kernels: Kernels) -> None:
    session = open_session(kernels, 32 * MB, link_out=FAST, link_in=FAST)
    region = session.region(32 * MB, 0)
    region.memory[:] = 3
    region.to_pool()
    session.close()
    part = region.memory[100:].view(np.int32)
    region.to_device()
    handle = region.handle
    del region
    gc.collect()
    assert part[-1] == 0x03030303
    before = resident_bytes()
    del part
    gc.collect()
    assert before - resident_bytes() > 0.95 * 32 * MB
    with pytest.raises(KernelError, match=f"region {handle} is not open"):
        kernels.call("ho_region_to_pool", handle)


def test_a_region_can_be_moved_by_the_commands_of_another_session(opened: Callable[..., Steps]) -> None:
    owner, other = opened(), opened(pool_bytes=PAGE)
    region = owner.session.region(2 * MB, 8 * MB)
    region.memory[:] = 4
    other.session.region_command(1, "store", region)
    other.begin()
    other.store(1)
    other.end()
    assert owner.session.stats().device_region_bytes == 0
    region.to_device()
    assert (region.memory == 4).all()


# Recording


def test_a_step_is_recorded_with_its_order_and_waits(opened: Callable[..., Steps]) -> None:
    steps = opened(link=Link(100_000_000, 0), paced=True)
    x = np.zeros(1_000_000, np.uint8)
    steps.session.tensor_command(1, "store", x.nbytes, 0)
    for step in (1, 2):
        before = time.perf_counter_ns()
        steps.begin()
        steps.mark(7)
        steps.store(1, x)
        steps.store_done(1, x)
        steps.release(8, x)
        steps.mark(9)
        steps.end()
        after = time.perf_counter_ns()
        events = steps.session.take_events()
        assert [EVENT_KINDS[k] for k in events["kind"]] == ["begin", "mark", "done", "release", "mark", "store", "end"]
        assert (events["step"] == step).all()
        chain = events[events["kind"] != EVENT_KINDS.index("store")]
        times = np.ravel([chain["start_ns"], chain["end_ns"]], "F")
        assert before < times[0]
        assert (np.diff(times) >= 0).all()
        assert times[-1] < after
        store, done = events_of(events, "store")[1], events_of(events, "done")[1]
        assert 0 < store["waited_ns"] == done["waited_ns"] <= done["end_ns"] - done["start_ns"]
        assert store["issued_ns"] <= store["start_ns"] < store["end_ns"] <= done["end_ns"]
    stats = steps.session.stats()
    assert (stats.steps, stats.bytes_out, stats.bytes_in, stats.events_lost) == (2, 2_000_000, 0, 0)


def mark_repeatedly(steps: Steps, count: int) -> int:
    """Nanoseconds this thread computed for ``count`` marks."""
    kernel_id = np.array(steps.session.kernel_id(1))
    pointers = (ctypes.c_void_p * 3)(kernel_id.ctypes.data, steps.token.ctypes.data, steps.token.ctypes.data)
    mark = steps.session.kernels.library.HyperMark
    start_ns = time.thread_time_ns()
    for _ in range(count):
        if mark(3, pointers, None, None, None, None, None) != 0:
            raise RuntimeError(steps.session.kernels.last_error())
    return time.thread_time_ns() - start_ns


def test_the_oldest_events_are_lost_and_counted_when_nobody_takes_them(opened: Callable[..., Steps]) -> None:
    steps = opened()
    mark_repeatedly(steps, 131_072 + 10)
    assert len(steps.session.take_events()) == 131_072
    assert steps.session.stats().events_lost == 10


def test_a_mark_costs_less_than_one_percent_of_an_op(opened: Callable[..., Steps]) -> None:
    """Ops of the demo's step take 680 us on the mean."""
    steps = opened()
    assert min(mark_repeatedly(steps, 500) for _ in range(5)) / 500 < 6_800


# What goes wrong


def store_of_other_size(steps: Steps) -> None:
    steps.store(1, np.zeros(999, np.float32))


def prefetch_of_a_store(steps: Steps) -> None:
    steps.prefetch(1, np.zeros(1000, np.float32))


def store_not_declared(steps: Steps) -> None:
    steps.store(77, np.zeros(1000, np.float32))


def store_twice(steps: Steps) -> None:
    x = np.zeros(1000, np.float32)
    steps.store(1, x)
    steps.store(1, x)


def wait_for_other_memory(steps: Steps) -> None:
    x = np.zeros(1000, np.float32)
    steps.store(1, x)
    steps.store_done(1, x.copy())


def wait_before_issue(steps: Steps) -> None:
    steps.store_done(1, np.zeros(1000, np.float32))


def wait_for_what_waits_for_nothing(steps: Steps) -> None:
    y = np.zeros(1000, np.float32)
    steps.prefetch(2, y)
    steps.prefetch_done(2, y)


def end_with_what_waits_for_nothing(steps: Steps) -> None:
    steps.prefetch(2, np.zeros(1000, np.float32))
    steps.end()


def unknown_type(steps: Steps) -> None:
    steps.store(1, np.zeros(1000, "datetime64[s]"))


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (store_of_other_size, "command 1 moves 4000 bytes, but got a tensor of 3996"),
        (prefetch_of_a_store, "command 1 is no Prefetch"),
        (store_not_declared, "the session has no command 77"),
        (store_twice, "Store 1 was issued twice in one step"),
        (wait_for_other_memory, "Store 1 was issued for other memory than is waited for"),
        (wait_before_issue, "Store 1 is waited for before it is issued"),
        (wait_for_what_waits_for_nothing, "Prefetch 2 waits, itself or by others, for a command that is not issued"),
        (end_with_what_waits_for_nothing, "Prefetch 2 waits for a command that is not issued"),
        (unknown_type, "a cache operator got a tensor of unknown type datetime64[s]"),
    ],
)
def test_a_graph_that_does_not_fit_its_commands_fails_and_the_next_step_runs(
    opened: Callable[..., Steps], mistake: Callable[[Steps], None], sentence: str
) -> None:
    steps = opened()
    steps.session.tensor_command(1, "store", 4000, 0)
    steps.session.tensor_command(2, "prefetch", 4000, 0)
    steps.session.command_after(2, [1])
    steps.begin()
    with pytest.raises(RuntimeError) as caught:
        mistake(steps)
    assert str(caught.value) == sentence
    with pytest.raises(RuntimeError) as again:
        steps.end()
    assert str(again.value) == sentence
    assert steps.session.abandon() == sentence
    x, y = numbers(1000), np.empty(1000, np.float32)
    steps.begin()
    steps.store(1, x)
    steps.prefetch(2, y)
    steps.end()
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (lambda s: s.tensor_command(1, "store", 4, 0), "Store 1 is declared twice"),
        (lambda s: s.tensor_command(2, "store", 4, MB - 3), "a slot of 4 bytes at 1048573 is not inside the pool of"),
        (lambda s: s.tensor_command(2, "detach", 4, 0), "a tensor's command is a Store"),
        (lambda s: s.tensor_command(1 << 32, "store", 4, 0), "a command's index is from 0 to"),
        (lambda s: s.command_after(1, [9]), "the session has no command 9"),
        (lambda s: s.region(4, 100), "the pool offset 100 of a region is not a multiple of 4096"),
        (lambda s: s.region(MB, PAGE), "a slot of 1048576 bytes at 4096 is not inside the pool of"),
        (lambda s: Steps(s).begin() or s.tensor_command(2, "store", 4, 0), "only between steps"),
    ],
)
def test_a_command_that_cannot_be_is_refused(
    opened: Callable[..., Steps], mistake: Callable[[Session], None], sentence: str
) -> None:
    steps = opened(pool_bytes=MB)
    steps.session.tensor_command(1, "store", 4, 0)
    with pytest.raises(KernelError, match=sentence):
        mistake(steps.session)


def test_a_session_that_is_closed_is_not_there_any_more(kernels: Kernels) -> None:
    session = open_session(kernels, MB, link_out=FAST, link_in=FAST)
    session.close()
    with pytest.raises(KernelError, match=f"session {session.handle} is not open"):
        session.close()
    with pytest.raises(RuntimeError, match=f"session {session.handle} is not open"):
        Steps(session).begin()


def test_a_step_that_was_left_in_the_middle_copies_nothing_after_it_is_abandoned(
    opened: Callable[..., Steps],
) -> None:
    steps = opened(link=Link(10_000_000, 0), paced=True)
    y = np.zeros(8 * MB, np.uint8)  # 0.8 s
    steps.session.tensor_command(1, "prefetch", y.nbytes, 0)
    steps.begin()
    steps.prefetch(1, y)
    start = time.perf_counter()
    assert steps.session.abandon() == ""
    assert time.perf_counter() - start < 0.4
    with pytest.raises(RuntimeError, match="the step was abandoned"):
        steps.prefetch_done(1, y)


def test_what_is_being_copied_when_a_step_is_abandoned_has_stopped_when_that_returns(
    opened: Callable[..., Steps],
) -> None:
    steps = opened(256 * MB)
    y = np.zeros(256 * MB, np.uint8)
    steps.session.tensor_command(1, "prefetch", y.nbytes, 0)
    for wait_s in (0.002, 0.005, 0.01):
        steps.begin()
        steps.prefetch(1, y)
        time.sleep(wait_s)
        steps.session.abandon()
        y[:: MB // 4] = 1
        time.sleep(0.01)
        assert y[:: MB // 4].all()


def test_a_folder_that_is_not_there_is_said(kernels: Kernels, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    with pytest.raises(KernelError, match=f"a pool file in the folder {folder} cannot be made: No such file"):
        open_session(kernels, MB, link_out=FAST, link_in=FAST, folder=folder)


def test_a_pool_file_outlives_its_folder(opened: Callable[..., Steps], tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    folder.mkdir()
    steps = opened(folder=folder)
    region = steps.session.region(3 * MB, 0)
    region.memory[:] = 8
    shutil.rmtree(folder)
    region.to_pool()
    assert (region.memory == 8).all()
    region.to_device()
    assert (region.memory == 8).all()


def test_a_pool_larger_than_free_memory_is_refused(kernels: Kernels) -> None:
    with pytest.raises(KernelError, match=r"a pool of 1152921504606846976 bytes of shared memory .*: [0-9]+ are free"):
        open_session(kernels, 1 << 60, link_out=FAST, link_in=FAST)


def test_a_pool_without_a_link_is_refused(kernels: Kernels) -> None:
    with pytest.raises(KernelError, match="needs a bandwidth above zero"):
        open_session(kernels, MB, link_out=Link(0, 0), link_in=FAST)


IN_A_PROCESS_OF_ITS_OWN = """
import resource, sys
from pathlib import Path
import numpy as np
from plugin_ops import FAST, Steps, built_kernels
from hyperoffload_core.mindspore_plugin.kernels import KernelError, open_session

kernels, folder, MB = built_kernels(), Path(sys.argv[1]), 1 << 20

def session():
    return open_session(kernels, 8 * MB, link_out=FAST, link_in=FAST, folder=folder, paced=False)

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
"""


def run_process(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN + code, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"},
    )


@pytest.mark.usefixtures("kernels")
def test_a_pool_file_there_is_no_room_for_is_an_error_when_it_is_opened(tmp_path: Path) -> None:
    code = """
limit(MB)
try:
    session()
except KernelError as error:
    print(error)
"""
    run = run_process(code, tmp_path)
    assert run.stdout == "a pool of 8388608 bytes cannot be made: File too large\n", run.stderr


@pytest.mark.usefixtures("kernels")
def test_a_write_that_fails_fails_its_kernel_and_loses_nothing(tmp_path: Path) -> None:
    code = """
steps = Steps(session())
region = steps.session.region(4 * MB, 0)
region.memory[:] = 3
steps.session.region_command(1, "store", region)
x = np.full(MB, 2, np.uint8)
steps.session.tensor_command(2, "store", MB, 7 * MB)
for size in (2 * MB, 5 * MB, resource.RLIM_INFINITY):
    limit(size)
    steps.begin()
    try:
        steps.store(1)
        steps.store_done(1)
        steps.store(2, x)
        steps.store_done(2, x)
        steps.end()
    except RuntimeError as error:
        print(error, (x == 2).all())
    print(steps.session.stats().device_region_bytes, (region.memory == 3).all())
    region.to_device()
"""
    run = run_process(code, tmp_path)
    assert run.stdout.splitlines() == [
        f"writing 4194304 bytes to the pool file in {tmp_path}: File too large True",
        "4194304 True",
        f"writing 1048576 bytes to the pool file in {tmp_path}: File too large True",
        "0 True",
        "0 True",
    ], run.stderr


@pytest.mark.usefixtures("kernels")
def test_a_prefetch_there_is_no_memory_for_fails_its_kernel_and_loses_nothing(tmp_path: Path) -> None:
    code = """
steps = Steps(session())
region = steps.session.region(4 * MB, 0)
region.memory[:] = 3
region.to_pool()
steps.session.region_command(1, "prefetch", region)
steps.begin()
in_use = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (in_use + MB, resource.RLIM_INFINITY))
steps.prefetch(1)
try:
    steps.end()
except RuntimeError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(steps.session.stats().device_region_bytes, (region.memory == 3).all())
"""
    run = run_process(code, tmp_path)
    assert run.stdout.splitlines() == ["mapping 6291456 bytes of memory: Cannot allocate memory", "0 True"], run.stderr


@pytest.mark.usefixtures("kernels")
def test_a_killed_process_leaves_no_file(tmp_path: Path) -> None:
    code = """
import os, signal
steps = Steps(session())
region = steps.session.region(4 * MB, 0)
region.to_pool()
print(len(list(folder.iterdir())), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    shared_before = sorted(Path("/dev/shm").iterdir())
    run = run_process(code, tmp_path)
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert run.stdout == "0\n"
    assert list(tmp_path.iterdir()) == []
    assert [p for p in Path("/dev/shm").iterdir() if p not in shared_before and "hyperoffload" in p.name] == []


@pytest.mark.usefixtures("kernels")
def test_a_process_that_ends_in_the_middle_of_a_step_ends_at_once(tmp_path: Path) -> None:
    code = """
from hyperoffload_core.hardware import Link
slow = Link(100_000, 0)  # 84 s
steps = Steps(open_session(kernels, 8 * MB, link_out=slow, link_in=slow))
x = np.zeros(8 * MB, np.uint8)
steps.session.tensor_command(1, "store", 8 * MB, 0)
steps.begin()
steps.store(1, x)
print("over")
"""
    start = time.perf_counter()
    run = run_process(code, tmp_path)
    assert (run.returncode, run.stdout) == (0, "over\n"), run.stderr
    assert time.perf_counter() - start < 40


def test_a_hundred_sessions_leave_no_thread_descriptor_or_mapping(kernels: Kernels, tmp_path: Path) -> None:
    def cycle() -> None:
        session = open_session(kernels, MB, link_out=FAST, link_in=FAST, folder=tmp_path)
        steps = Steps(session)
        region = session.region(PAGE, 0)
        session.region_command(1, "store", region)
        session.region_command(2, "prefetch", region)
        session.region_command(3, "detach", region)
        steps.begin()
        steps.store(1)
        steps.end()
        session.close()

    def held() -> tuple[int, int, int]:
        gc.collect()
        mappings = Path("/proc/self/maps").read_text().count("\n")
        return len(list(Path("/proc/self/task").iterdir())), len(list(Path("/proc/self/fd").iterdir())), mappings

    for _ in range(10):
        cycle()
    threads, descriptors, mappings = held()
    for _ in range(100):
        cycle()
    now = held()
    assert now[:2] == (threads, descriptors)
    assert now[2] <= mappings + 10


def test_sessions_are_independent(opened: Callable[..., Steps]) -> None:
    many = [opened(pool_bytes=MB, random_delay_ns=200_000, seed=i) for i in range(20)]
    tensors = [numbers(1000, i) for i in range(20)]
    fetched = [np.empty_like(x) for x in tensors]
    for steps, x, y in zip(many, tensors, fetched, strict=True):
        steps.session.tensor_command(1, "store", 4000, 0)
        steps.session.tensor_command(2, "prefetch", 4000, 0)
        steps.session.command_after(2, [1])
        steps.begin()
        steps.store(1, x)
        steps.prefetch(2, y)
    for steps, x, y in zip(many, tensors, fetched, strict=True):
        steps.end()
        np.testing.assert_array_equal(x, y)


def test_an_unknown_session_is_an_error(kernels: Kernels) -> None:
    token = np.zeros(1, np.int64)
    assert call_op(kernels, "HyperMark", np.array(1_000_000 << 32), token, token) == 1
    assert kernels.last_error() == "session 1000000 is not open"


# The sources


def kernel_sources() -> list[Path]:
    return [p for p in sorted(SOURCES.glob("*.cc")) if not p.name.startswith("pass")]


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_the_kernels_run_clean_under(sanitizer: str, tmp_path: Path) -> None:
    built_kernels()  # skips where there is no compiler
    compiler = find_compiler().command
    empty = tmp_path / "empty.cc"
    empty.write_text("int main() { return 0; }\n")
    tried = subprocess.run([*compiler, f"-fsanitize={sanitizer}", empty, "-o", tmp_path / "empty"], capture_output=True)
    if tried.returncode != 0 or subprocess.run([tmp_path / "empty"], capture_output=True).returncode != 0:
        pytest.skip(f"{compiler[0]} has no sanitizer {sanitizer} here")
    whole = tmp_path / "whole.cc"  # in one piece it compiles in half the time
    whole.write_text("".join(f'#include "{p}"\n' for p in [*kernel_sources(), ROOT / "tests/cpp/drive_kernels.cc"]))
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
    checks = [f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all", "-O0", "-g1"]
    program = tmp_path / "drive_kernels"
    build = [*compiler, "-std=c++17", *warnings, *checks, "-pthread", f"-I{SOURCES}", whole, "-o", program]
    built = subprocess.run(build, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    run = subprocess.run([program, tmp_path], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_sources_are_formatted() -> None:
    formatter = shutil.which("clang-format") or shutil.which("clang-format", path=Path(sys.executable).parent)
    if formatter is None:
        pytest.skip("clang-format is not installed")
    files = [*SOURCES.glob("*.cc"), *SOURCES.glob("*.h"), *(ROOT / "tests/cpp").glob("*.cc")]
    style = f"--style=file:{SOURCES / '.clang-format'}"
    run = subprocess.run([formatter, style, "--dry-run", "--Werror", *files], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
