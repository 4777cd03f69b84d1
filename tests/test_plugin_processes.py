"""Processes with cache operators: no room, killed, ended in the middle, many sessions; their C++ under sanitizers."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from plugin_ops import FAST, MB, PAGE, Steps, built_kernels, call_op, numbers

from hyperoffload_core.mindspore_plugin.kernels import Kernels, open_session
from hyperoffload_core.mindspore_plugin.toolchain import SOURCES, find_compiler

ROOT = Path(__file__).parent.parent

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


@pytest.mark.usefixtures("plugin_kernels")
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


@pytest.mark.usefixtures("plugin_kernels")
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


@pytest.mark.usefixtures("plugin_kernels")
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


@pytest.mark.usefixtures("plugin_kernels")
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


@pytest.mark.usefixtures("plugin_kernels")
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


def test_a_hundred_sessions_leave_no_thread_descriptor_or_mapping(plugin_kernels: Kernels, tmp_path: Path) -> None:
    def cycle() -> None:
        session = open_session(plugin_kernels, MB, link_out=FAST, link_in=FAST, folder=tmp_path)
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


def test_sessions_are_independent(open_steps: Callable[..., Steps]) -> None:
    many = [open_steps(pool_bytes=MB, random_delay_ns=200_000, seed=i) for i in range(20)]
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


def test_an_unknown_session_is_an_error(plugin_kernels: Kernels) -> None:
    token = np.zeros(1, np.int64)
    assert call_op(plugin_kernels, "HyperMark", np.array(1_000_000 << 32), token, token) == 1
    assert plugin_kernels.last_error() == "session 1000000 is not open"


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
