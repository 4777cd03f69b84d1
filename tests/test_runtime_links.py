"""Copy threads: pace, order and waiting; progress of streams."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from hyperoffload_core.hardware import Link
from hyperoffload_core.runtime.links import CHUNK_BYTES, WAKE_UP_NS, Copy, CopyThread
from hyperoffload_core.runtime.machine import LATENCY_NS, memory_copy_rate, this_machine
from hyperoffload_core.runtime.memory import allocate
from hyperoffload_core.runtime.progress import COMPUTE, Progress, StoppedError

pytestmark = pytest.mark.mindspore


def run_copies(sizes: list[int], link: Link, *, paced: bool = True) -> tuple[np.ndarray, list[tuple[bytes, bytes]]]:
    """Start and end of copies on one link, and what lay at source and target in the end."""
    random = np.random.default_rng(3)
    pairs = [(random.integers(0, 256, n).astype(np.uint8), np.zeros(n, np.uint8)) for n in sizes]
    copies = [Copy(row, source, target, link, ()) for row, (source, target) in enumerate(pairs)]
    stamps = np.zeros(2 * len(copies), np.int64)
    progress = Progress(2)
    thread = CopyThread(1, "link", copies, progress, stamps.data, paced=paced, delay_s=0.0, seed=0)
    thread.start()
    thread.begin_step()
    assert progress.wait(1, len(copies), 30.0)
    thread.close()
    return stamps.reshape(-1, 2), [(s.tobytes(), t.tobytes()) for s, t in pairs]


def test_a_paced_copy_takes_what_the_link_takes():
    link = Link(bytes_per_s=200_000_000, latency_ns=100_000)
    sizes = [2 * CHUNK_BYTES + 12_345, 1, CHUNK_BYTES]
    due = np.array([link.latency_ns - WAKE_UP_NS + n * 5 for n in sizes])
    least = due.sum() * 1000
    for _ in range(20):  # until the machine has a moment for it: only the least time says what pacing costs
        stamps, contents = run_copies(sizes, link)
        took = stamps[:, 1] - stamps[:, 0]
        assert (took >= due).all()
        assert (stamps[1:, 0] >= stamps[:-1, 1]).all()
        assert all(source == target for source, target in contents)
        least = min(least, took.sum())
        if least < 2 * due.sum():
            break
    assert least < 2 * due.sum()


def test_an_unpaced_copy_ignores_the_link():
    stamps, contents = run_copies([CHUNK_BYTES + 1], Link(bytes_per_s=1000, latency_ns=10**9), paced=False)
    assert stamps[0, 1] - stamps[0, 0] < 10**9
    assert all(source == target for source, target in contents)


def test_progress_wakes_a_waiter_at_its_count_and_not_before():
    progress = Progress(1)
    woken = threading.Event()

    def wait() -> None:
        progress.wait(COMPUTE, 3)
        woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    progress.advance(COMPUTE)
    progress.advance(COMPUTE)
    assert not woken.wait(0.05)
    progress.advance(COMPUTE)
    assert woken.wait(5)
    thread.join()


def test_waiting_ends_with_the_timeout_or_when_the_step_is_abandoned():
    progress = Progress(1)
    start = time.monotonic()
    assert not progress.wait(COMPUTE, 1, timeout_s=0.05)
    assert time.monotonic() - start >= 0.05
    timer = threading.Timer(0.05, progress.stop)
    timer.start()
    with pytest.raises(StoppedError):
        progress.wait(COMPUTE, 1)
    with pytest.raises(StoppedError):
        progress.wait(COMPUTE, 0)
    timer.join()


def test_many_advances_are_never_missed():
    progress = Progress(1)
    seen = []

    def follow() -> None:
        for count in range(1, 2001):
            progress.wait(COMPUTE, count)
            seen.append(progress.done[COMPUTE] >= count)

    thread = threading.Thread(target=follow)
    thread.start()
    for _ in range(2000):
        progress.advance(COMPUTE)
    thread.join(20)
    assert not thread.is_alive() and all(seen) and len(seen) == 2000


def test_shared_memory_is_shared_and_touched():
    block = allocate(10_000, "test", shared=True)
    block[:] = 7
    assert block.ctypes.data % 4096 == 0 and block.nbytes == 10_000


def test_this_machine_says_what_it_is_and_where_its_numbers_come_from():
    machine = this_machine(123_000_000)
    assert machine.name == "this-machine" and machine.compute is None and machine.duplex == "full"
    assert machine.link_in == machine.link_out == Link(123_000_000, LATENCY_NS)
    assert "cores" in machine.title and set(machine.sources) >= {"memory", "link.out", "link.in", "link.latency_ns"}
    measured = this_machine(None).link_in.bytes_per_s
    assert measured > 200_000_000
    assert memory_copy_rate() > 200_000_000
