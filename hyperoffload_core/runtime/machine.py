"""This machine as a device with links, so that measured runs say what they ran on."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from time import perf_counter_ns

from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.runtime.links import CHUNK_BYTES, NANOSECONDS
from hyperoffload_core.runtime.memory import allocate

# What a transfer costs beside its bytes: its thread sleeps past the end (30 to 45 us) and starts a few us after what it
# waited for. An op that waits for it goes on 14 to 60 us later still, which no link description holds.
LATENCY_NS = 50_000
_MEASURED_BYTES = 64 << 20


def this_machine(link_bytes_per_s: int | None) -> Hardware:
    """The CPU as the device, its memory as the pool; None measures the memory copy rate and takes it as the link's.

    Op durations on it are always measured, so ``compute`` is None.
    """
    rate = memory_copy_rate() if link_bytes_per_s is None else link_bytes_per_s
    source = (
        "measured now: one thread copying between two blocks of memory"
        if link_bytes_per_s is None
        else "given; copies are paced to it, as memory inside one host has no slow link"
    )
    link = Link(bytes_per_s=rate, latency_ns=LATENCY_NS)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = len(os.sched_getaffinity(0))
    return Hardware(
        name="this-machine",
        title=f"{_processor()}, {cores} cores, {memory / 2**30:.0f} GiB",
        device_bytes=memory,
        link_out=link,
        link_in=link,
        duplex="full",
        sources={
            "memory": "physical memory the operating system reports",
            "link.out": source,
            "link.in": source,
            "link.latency_ns": "measured on two busy cores: a paced copy thread wakes 30 to 45 us late; rounded up",
        },
    )


def memory_copy_rate() -> int:
    """Bytes per second one thread copies between two touched blocks in the copy threads' chunks (median of 7)."""
    source = allocate(_MEASURED_BYTES, "measurement of the copy rate", shared=True)
    target = allocate(_MEASURED_BYTES, "measurement of the copy rate", shared=False)
    rates = []
    for _ in range(7):
        start_ns = perf_counter_ns()
        for offset in range(0, _MEASURED_BYTES, CHUNK_BYTES):
            ctypes.memmove(target.ctypes.data + offset, source.ctypes.data + offset, CHUNK_BYTES)
        rates.append(_MEASURED_BYTES * NANOSECONDS // (perf_counter_ns() - start_ns))
    return sorted(rates)[3]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "CPU"
