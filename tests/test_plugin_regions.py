"""Memory of parameters that keeps its address while its contents are on the device or in the pool."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from plugin_ops import FAST, MB, PAGE, Steps, resident_bytes

from hyperoffload_core.mindspore_plugin.kernels import KernelError, Kernels, Region, open_session


def test_a_region_keeps_address_and_contents_wherever_it_is(open_steps: Callable[..., Steps], tmp_path: Path) -> None:
    steps = open_steps(folder=tmp_path)
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


def test_who_reads_a_region_while_it_moves_reads_its_contents(open_steps: Callable[..., Steps]) -> None:
    """An op may read what a Store still copies; only writers wait for it."""
    steps = open_steps()
    region = steps.session.region(3 * MB, 0)
    region.memory[:] = 7
    for kind, index in (("store", 1), ("prefetch", 2), ("detach", 3), ("prefetch", 4)):
        steps.session.region_command(index, kind, region)  # type: ignore[arg-type]
    for index in (2, 3, 4):
        steps.session.command_after(index, [index - 1])
    for _ in range(20):
        steps.begin()
        steps.store(1)
        steps.prefetch(2)
        steps.detach(3)
        steps.prefetch(4)
        for _ in range(60):
            assert region.memory[::PAGE].min() == 7
        steps.end()


def test_what_is_written_while_a_region_is_in_the_pool_is_there_when_it_comes_back(
    open_steps: Callable[..., Steps],
) -> None:
    steps = open_steps()
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


def test_the_memory_of_a_region_in_the_pool_is_not_resident(open_steps: Callable[..., Steps]) -> None:
    steps = open_steps(32 * MB)
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


def region_in_pool(steps: Steps, value: int) -> Region:
    """A region full of the value, with a Prefetch (1) and a Detach (2)."""
    region = steps.session.region(PAGE, 0)
    steps.session.region_command(1, "prefetch", region)
    steps.session.region_command(2, "detach", region)
    region.memory[:] = value
    region.to_pool()
    return region


def fetch_and_detach(steps: Steps) -> None:
    steps.begin()
    steps.prefetch(1)
    steps.prefetch_done(1)
    steps.detach(2)
    steps.end()


def test_detaching_what_the_pool_has_not_writes_it_first(open_steps: Callable[..., Steps]) -> None:
    steps = open_steps()
    region = region_in_pool(steps, 5)
    region.to_device()
    region.memory[:] = 6  # between steps, say by a checkpoint that is loaded
    fetch_and_detach(steps)
    assert (region.memory == 6).all()
    assert steps.session.stats().bytes_out == PAGE


def test_detaching_what_the_pool_has_moves_no_bytes(open_steps: Callable[..., Steps]) -> None:
    steps = open_steps()
    region = region_in_pool(steps, 5)
    fetch_and_detach(steps)
    assert (region.memory == 5).all()
    assert (steps.session.stats().bytes_in, steps.session.stats().bytes_out) == (PAGE, 0)


def test_a_region_outlives_its_session_and_goes_with_its_last_array(plugin_kernels: Kernels) -> None:
    session = open_session(plugin_kernels, 32 * MB, link_out=FAST, link_in=FAST)
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
        plugin_kernels.call("ho_region_to_pool", handle)


def test_a_region_can_be_moved_by_the_commands_of_another_session(open_steps: Callable[..., Steps]) -> None:
    owner, other = open_steps(), open_steps(pool_bytes=PAGE)
    region = owner.session.region(2 * MB, 8 * MB)
    region.memory[:] = 4
    other.session.region_command(1, "store", region)
    other.begin()
    other.store(1)
    other.end()
    assert owner.session.stats().device_region_bytes == 0
    region.to_device()
    assert (region.memory == 4).all()
