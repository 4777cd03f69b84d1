"""What a comparison of profiles says, as values: `profiles.compare` makes them, tables, reports and pages show them.

Every tuple with one entry per profile is in the order of the profiles; None stands for what a profile does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hyperoffload_core.recording import Profile

Unit = Literal["ns", "bytes", "fraction", "number"]
Value = int | float | None
Tier = Literal["device", "moves", "pool"]

TIER_WORDS: dict[Tier, str] = {
    "device": "kept on the device",
    "moves": "moved to the pool and back",
    "pool": "kept in the pool",
}


@dataclass(frozen=True)
class LabelledProfile:
    """A profile under the name it has in the comparison; ``run_id`` where it comes from a database."""

    label: str
    profile: Profile
    run_id: int | None = None


@dataclass(frozen=True)
class Side:
    """What a compared profile is: every number of it was predicted or measured (``kind``) under ``conditions``."""

    label: str
    kind: str
    model: str
    strategy: str
    hardware: str
    conditions: str
    duration_source: str
    memory_limit_bytes: int
    step_count: int
    run_id: int | None

    @property
    def name(self) -> str:
        """The label with the kind, which it may already say."""
        return self.label if self.kind in self.label else f"{self.label} ({self.kind})"


@dataclass(frozen=True)
class Match:
    """How much of a profile's graph has a counterpart in the baseline's: ``ops`` of ``op_count``, ``storages`` of
    ``storage_count``; ``reordered`` when the common ops run in another order. The same graph may have recomputed ops
    in one of the two."""

    same_schedule: bool
    same_graph: bool
    reordered: bool
    ops: int
    op_count: int
    storages: int
    storage_count: int


@dataclass(frozen=True)
class Number:
    """One row of the table: a value per profile and its difference to the baseline's."""

    name: str
    unit: Unit
    lower_is_better: bool | None
    values: tuple[Value, ...]
    differences: tuple[Value, ...]


@dataclass(frozen=True)
class OpDifference:
    """One op: its median duration in each profile, and how long the op waited for a transfer before it began in the
    median step. ``differences_ns`` are those of both together, which is where time goes."""

    name: str
    primitive: str
    scope: str
    phase: str
    durations_ns: tuple[int | None, ...]
    waits_ns: tuple[int | None, ...]
    differences_ns: tuple[int | None, ...]

    @property
    def largest_ns(self) -> int:
        return max(map(abs, filter(None, self.differences_ns)), default=0)


@dataclass(frozen=True)
class Placement:
    """Where a profile has a storage: ``home`` device or pool, and how often it leaves and comes back in a step.

    A storage that moves in parts leaves once when all its parts have.
    """

    home: str
    stores: int
    prefetches: int

    @property
    def tier(self) -> Tier:
        if self.stores or self.prefetches:
            return "moves"
        return "device" if self.home == "device" else "pool"

    @property
    def text(self) -> str:
        if not self.stores and not self.prefetches:
            return "kept" if self.home == "device" else "stays in the pool"
        times = max(self.stores, self.prefetches)
        moved = "fetched from the pool" if self.home == "pool" else "offloaded"
        return f"{moved} {times} time{'s' if times != 1 else ''}"


@dataclass(frozen=True)
class Residency:
    """How a profile holds a storage on the device in its median step: the part of the step it is there (0 to 1), and
    its part of the bytes at that profile's peak (0 when it is not there then)."""

    resident: float
    peak_share: float


@dataclass(frozen=True)
class StorageDifference:
    """A storage that is not placed or not held alike in all profiles."""

    name: str
    tensor_class: str
    bytes: int
    placements: tuple[Placement | None, ...]
    residencies: tuple[Residency | None, ...]

    @property
    def decided_otherwise(self) -> bool:
        """Whether the profiles' schedules decide differently on it, rather than only hold it for another time."""
        return len(set(self.placements)) > 1


@dataclass(frozen=True)
class TierChange:
    """Storages of one class that are in tier ``before`` in the baseline and in ``after`` in profile ``side``."""

    side: int
    tensor_class: str
    before: Tier
    after: Tier
    count: int
    bytes: int


@dataclass(frozen=True)
class PolicyDifference:
    """A setting on which the policies differ, as text per profile; None where a policy does not set it."""

    setting: str
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class TransferSum:
    """All moves of one storage in one direction in the median step; ``parts`` counts the transfers they are made of.

    ``slack_ns`` is the least of them, ``cause`` and ``remedy`` (`explain.moves.MoveVerdict`) are those of the move that
    blocks, or else is exposed, most; None where nothing moves.
    """

    count: int
    parts: int
    bytes: int
    duration_ns: int
    exposed_ns: int
    blocking_ns: int
    hidden_ns: int = 0
    slack_ns: int | None = None
    cause: str | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class TransferDifference:
    """One storage and direction (``out`` or ``in``) that does not move alike in all profiles."""

    storage: str
    tensor_class: str
    direction: str
    moves: tuple[TransferSum, ...]


@dataclass(frozen=True)
class Comparison:
    """Everything that is said about the profiles; ``sides[baseline]`` is what differences refer to.

    ``notes`` are sentences on what cannot be compared, or only with care. ``storages`` are by size; ``tier_changes``
    and ``policies`` are what the schedules decide differently, and what was asked of them.
    """

    verdict: str
    notes: tuple[str, ...]
    baseline: int
    sides: tuple[Side, ...]
    matches: tuple[Match, ...]
    numbers: tuple[Number, ...]
    ops: tuple[OpDifference, ...]
    storages: tuple[StorageDifference, ...]
    tier_changes: tuple[TierChange, ...]
    policies: tuple[PolicyDifference, ...]
    transfers: tuple[TransferDifference, ...]

    @property
    def decisions(self) -> tuple[StorageDifference, ...]:
        """Storages on which the schedules decide differently."""
        return tuple(s for s in self.storages if s.decided_otherwise)
