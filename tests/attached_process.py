"""Run in an interpreter of its own by test_plugin_processes: ``cycles COUNT``, ``train`` or ``forever FOLDER``."""

from __future__ import annotations

import gc
import hashlib
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
from mindspore import nn

import hyperoffload as ho
from hyperoffload_core.schedule import Schedule
from tests.attach_models import WIDTH, batches, training

WARM_UP = 5


def schedule_of(step: Any, inputs: Any, limit: str) -> Schedule:
    policy = ho.Policy(options={"effort": "fast"})
    return ho.compile(step, inputs, policy=policy, limit=limit, hardware="ascend-910b", link_bandwidth="2GB/s")


def resources() -> tuple[int, int, int, int]:
    """Threads, open files, mappings, resident KiB of this process."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    files, maps = len(list(Path("/proc/self/fd").iterdir())), Path("/proc/self/maps").read_text().count("\n")
    return int(status["Threads"]), files, maps, int(status["VmRSS"].split()[0])


class Small(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Dense(WIDTH, WIDTH), nn.Dense(WIDTH, WIDTH)

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.second(self.first(x))


def cycles(count: int) -> None:
    """Attach, a step, detach: a few times first, then ``count`` times; prints resources before and behind these."""
    cell, inputs = Small(), batches()[0][:1]
    schedule = schedule_of(cell, inputs, "80%")
    assert schedule.transfers
    for n in range(WARM_UP + count):
        if n == WARM_UP:
            print(*resources(), flush=True)
        ho.attach(cell, schedule, paced=False)
        cell(*inputs).asnumpy()
        ho.detach(cell)
    print(*resources(), flush=True)


def train(folder: str, *, forever: bool) -> None:
    """Steps under a schedule; prints a digest of losses and parameters after six, or "stepping" after each."""
    step = training()
    ho.attach(step, schedule_of(step, batches()[0], "65%"), pool_folder=folder)
    digest = hashlib.sha256()
    n = 0
    while forever or n < 6:
        digest.update(step(*batches()[n % 3]).asnumpy().tobytes())
        n += 1
        if forever:
            print("stepping", flush=True)
    for parameter in step.get_parameters():
        digest.update(parameter.asnumpy().tobytes())
    print(digest.hexdigest(), flush=True)


if __name__ == "__main__":
    ms.set_context(mode=ms.GRAPH_MODE)
    if sys.argv[1] == "cycles":
        cycles(int(sys.argv[2]))
    else:
        train(sys.argv[2], forever=sys.argv[1] == "forever")
