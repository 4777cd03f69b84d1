"""Attached cells and processes: nothing grows, two do not disturb each other, a killed one leaves nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.mindspore, pytest.mark.usefixtures("built_plugin")]
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


@pytest.mark.parametrize(("sent", "ended_by"), [(signal.SIGKILL, signal.SIGKILL), (signal.SIGINT, signal.SIGTERM)])
def test_a_process_that_is_ended_in_a_step_leaves_no_file_and_no_shared_memory(
    sent: signal.Signals, ended_by: signal.Signals, tmp_path: Path
) -> None:
    """MindSpore itself ends its process where it is interrupted while a graph runs."""
    before = set(Path("/dev/shm").iterdir())
    with started("forever", tmp_path) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["stepping\n"] * 3
        while process.poll() is None:  # between steps an interrupt is Python's, which another one follows
            process.send_signal(sent)
            time.sleep(0.2)
    assert process.returncode in (-ended_by, 1, -sent)
    assert not list(tmp_path.iterdir())
    left = {path.name for path in set(Path("/dev/shm").iterdir()) - before}
    assert not {name for name in left if "hyper" in name or name.startswith("ho_")}
