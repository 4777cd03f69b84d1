"""Attached cells and processes: nothing grows, two do not disturb each other, a killed one leaves nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.mindspore
ROOT = Path(__file__).resolve().parent.parent


def started(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.attached_process", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def test_cycles_of_attach_and_detach_do_not_grow_the_process() -> None:
    """A hundred were run by hand; these show a thread, file or mapping that each cycle leaves behind."""
    count = 25
    with started("cycles", count) as process:
        assert process.stdout is not None
        before, after = (tuple(map(int, line.split())) for line in process.stdout)
    assert after[:2] == before[:2], "threads and open files"
    assert after[2] <= before[2] + count // 2, "mappings"
    assert after[3] <= before[3] + 100 * count, "resident KiB: MindSpore keeps some of each compile"


def test_two_processes_at_once_with_pools_in_one_folder_get_the_same_bits(tmp_path: Path) -> None:
    with started("train", tmp_path) as first, started("train", tmp_path) as second:
        assert first.stdout is not None and second.stdout is not None
        digests = [first.stdout.read(), second.stdout.read()]
    assert digests[0] == digests[1] and len(digests[0]) == 65
    assert not list(tmp_path.iterdir())


def test_a_killed_process_leaves_no_file_and_no_shared_memory(tmp_path: Path) -> None:
    before = set(Path("/dev/shm").iterdir())
    with started("forever", tmp_path) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["stepping\n"] * 3
        process.kill()
        process.wait()
    assert not list(tmp_path.iterdir())
    left = {path.name for path in set(Path("/dev/shm").iterdir()) - before}
    assert not {name for name in left if "hyper" in name or name.startswith("ho_")}
