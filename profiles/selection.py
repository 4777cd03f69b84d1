"""What happens in a stretch of a step: busy, overlapped, exposed and blocking time, bytes moved, the peak.

All times are those of unions of intervals, so nothing that runs beside itself is counted twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.recording import Profile
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.lanes import Lane, Lanes, of_step
from profiles.stacks import Steps

Column = NDArray[np.int64]


@dataclass(frozen=True)
class Selection:
    """``copying_ns`` (some transfer runs) is ``overlapped_ns`` (an op runs beside it) + ``exposed_ns``.

    ``blocking_ns``: the next op waits for a transfer. ``idle_ns``: nothing runs. Of a transfer that is partly inside,
    the part of its bytes is counted that its time inside is of its duration, rounded down. ``ops``, ``transfers``: how
    many touch the stretch. ``peak_bytes`` is reached first at ``peak_ns``.
    """

    start_ns: int
    end_ns: int
    computing_ns: int
    copying_ns: int
    copy_out_ns: int
    copy_in_ns: int
    exposed_ns: int
    blocking_ns: int
    bytes_out: int
    bytes_in: int
    ops: int
    transfers: int
    peak_ns: int
    peak_bytes: int

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def overlapped_ns(self) -> int:
        return self.copying_ns - self.exposed_ns

    @property
    def idle_ns(self) -> int:
        return self.length_ns - self.computing_ns - self.exposed_ns


def selection(
    profile: Profile, lanes: Lanes, live: Steps, start_ns: int, end_ns: int, step: int | None = 0
) -> Selection:
    """The numbers of ``[start_ns, end_ns)`` of one step; ``lanes`` and ``live`` (its memory) are of the same step."""

    def busy(lane: Lane) -> int:
        low, high = lane.busy_until([start_ns, end_ns]).tolist()
        return int(high - low)

    ops, moves = profile.ops, profile.transfers
    inside = of_step(moves.step, step) & (moves.start_ns < end_ns) & (moves.end_ns > start_ns)
    times = live.kept(start_ns, end_ns, 1)[:-1]
    held = live.at(times)
    top = int(held.argmax()) if len(held) else 0
    return Selection(
        start_ns=start_ns,
        end_ns=end_ns,
        computing_ns=busy(lanes.computing),
        copying_ns=busy(lanes.copying),
        copy_out_ns=busy(lanes.union("copy_out")),
        copy_in_ns=busy(lanes.union("copy_in")),
        exposed_ns=busy(lanes.exposed),
        blocking_ns=busy(lanes.waiting),
        bytes_out=_moved(profile, inside & (moves.direction == 0), start_ns, end_ns),
        bytes_in=_moved(profile, inside & (moves.direction == 1), start_ns, end_ns),
        ops=int((of_step(ops.step, step) & (ops.start_ns < end_ns) & (ops.end_ns > start_ns)).sum()),
        transfers=int(inside.sum()),
        peak_ns=int(times[top]) if len(held) else start_ns,
        peak_bytes=int(held[top]) if len(held) else 0,
    )


def _moved(profile: Profile, rows: NDArray[np.bool_], start_ns: int, end_ns: int) -> int:
    moves = profile.transfers
    start, end, size = moves.start_ns[rows], moves.end_ns[rows], moves.bytes[rows]
    whole = (start >= start_ns) & (end <= end_ns)
    # Python's integers: bytes times nanoseconds may be more than 64 bits hold.
    parts = zip(start[~whole].tolist(), end[~whole].tolist(), size[~whole].tolist(), strict=True)
    cut = sum(b * (min(e, end_ns) - max(s, start_ns)) // (e - s) for s, e, b in parts)
    return int(size[whole].sum()) + cut


def selection_facts(chosen: Selection) -> list[tuple[str, str, str]]:
    """(label, value, note) of each number, in words."""

    def share(time_ns: int, whole_ns: int, of: str) -> str:
        return f"{time_ns / whole_ns:.1%} of {of}" if whole_ns else ""

    length, copying = chosen.length_ns, chosen.copying_ns
    return [
        ("Compute busy", format_ns(chosen.computing_ns), share(chosen.computing_ns, length, "the time")),
        ("Copies busy", format_ns(copying), share(copying, length, "the time")),
        ("Overlapped", format_ns(chosen.overlapped_ns), share(chosen.overlapped_ns, copying, "the copies")),
        ("Exposed", format_ns(chosen.exposed_ns), share(chosen.exposed_ns, copying, "the copies")),
        ("Blocking", format_ns(chosen.blocking_ns), share(chosen.blocking_ns, length, "the time")),
        ("Idle", format_ns(chosen.idle_ns), "neither op nor copy"),
        ("In", format_bytes(chosen.bytes_in), f"link in busy {format_ns(chosen.copy_in_ns)}"),
        ("Out", format_bytes(chosen.bytes_out), f"link out busy {format_ns(chosen.copy_out_ns)}"),
        ("Ops", f"{chosen.ops:,}", f"{chosen.transfers:,} transfers"),
        ("Peak", format_bytes(chosen.peak_bytes), f"at {format_ns(chosen.peak_ns)}"),
    ]
