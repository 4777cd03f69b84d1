"""What a device and its links can do, read from TOML."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Literal

NANOSECONDS = 1_000_000_000
Duplex = Literal["full", "half"]


class HardwareError(ValueError):
    """A hardware description that cannot be used; the message says what is wrong and what would be right."""


@dataclass(frozen=True)
class Link:
    """One transfer direction: rate (> 0) and fixed cost of each transfer."""

    bytes_per_s: int
    latency_ns: int


@dataclass(frozen=True)
class Compute:
    """Roofline numbers of the compute stream; efficiencies are fractions of the peak that kernels reach."""

    flops_per_s: int
    memory_bytes_per_s: int
    flops_efficiency: float
    memory_efficiency: float
    op_overhead_ns: int


@dataclass(frozen=True)
class Hardware:
    """A device, its two links and where each number comes from (``sources``: dotted key -> text).

    ``compute`` is None for a machine whose op durations are always measured, never modelled.
    """

    name: str
    title: str
    device_bytes: int
    link_out: Link
    link_in: Link
    duplex: Duplex
    compute: Compute | None = None
    sources: dict[str, str] = field(default_factory=dict, compare=False)

    def with_link_bandwidth(self, bytes_per_s: int) -> Hardware:
        """The same hardware with both directions at the given rate."""
        return replace(
            self,
            link_out=replace(self.link_out, bytes_per_s=bytes_per_s),
            link_in=replace(self.link_in, bytes_per_s=bytes_per_s),
        )


def transfer_ns(size_bytes: int, link: Link) -> int:
    """Time one transfer occupies its link: latency plus bytes over bandwidth, rounded up (schedule-file rule)."""
    return link.latency_ns + -(-size_bytes * NANOSECONDS // link.bytes_per_s)
