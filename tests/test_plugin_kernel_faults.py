"""What goes wrong with cache operators: graphs that do not fit, sessions, pools, steps left in the middle."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from plugin_ops import FAST, MB, PAGE, Steps, numbers

from hyperoffload_core.hardware import Link
from hyperoffload_core.mindspore_plugin.kernels import KernelError, Kernels, Session, open_session


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
    open_steps: Callable[..., Steps], mistake: Callable[[Steps], None], sentence: str
) -> None:
    steps = open_steps()
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
    open_steps: Callable[..., Steps], mistake: Callable[[Session], None], sentence: str
) -> None:
    steps = open_steps(pool_bytes=MB)
    steps.session.tensor_command(1, "store", 4, 0)
    with pytest.raises(KernelError, match=sentence):
        mistake(steps.session)


def test_a_session_that_is_closed_is_not_there_any_more(plugin_kernels: Kernels) -> None:
    session = open_session(plugin_kernels, MB, link_out=FAST, link_in=FAST)
    session.close()
    with pytest.raises(KernelError, match=f"session {session.handle} is not open"):
        session.close()
    with pytest.raises(RuntimeError, match=f"session {session.handle} is not open"):
        Steps(session).begin()


def test_a_step_that_was_left_in_the_middle_copies_nothing_after_it_is_abandoned(
    open_steps: Callable[..., Steps],
) -> None:
    steps = open_steps(link=Link(10_000_000, 0), paced=True)
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
    open_steps: Callable[..., Steps],
) -> None:
    steps = open_steps(256 * MB)
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


def test_a_folder_that_is_not_there_is_said(plugin_kernels: Kernels, tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    with pytest.raises(KernelError, match=f"a pool file in the folder {folder} cannot be made: No such file"):
        open_session(plugin_kernels, MB, link_out=FAST, link_in=FAST, folder=folder)


def test_a_pool_file_outlives_its_folder(open_steps: Callable[..., Steps], tmp_path: Path) -> None:
    folder = tmp_path / "pool"
    folder.mkdir()
    steps = open_steps(folder=folder)
    region = steps.session.region(3 * MB, 0)
    region.memory[:] = 8
    shutil.rmtree(folder)
    region.to_pool()
    assert (region.memory == 8).all()
    region.to_device()
    assert (region.memory == 8).all()


def test_a_pool_larger_than_free_memory_is_refused(plugin_kernels: Kernels) -> None:
    with pytest.raises(KernelError, match=r"a pool of 1152921504606846976 bytes of shared memory .*: [0-9]+ are free"):
        open_session(plugin_kernels, 1 << 60, link_out=FAST, link_in=FAST)


def test_a_pool_without_a_link_is_refused(plugin_kernels: Kernels) -> None:
    with pytest.raises(KernelError, match="needs a bandwidth above zero"):
        open_session(plugin_kernels, MB, link_out=Link(0, 0), link_in=FAST)
