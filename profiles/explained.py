"""What the transfers of a profile cost and what would help, as values beside its columns.

Worked out from the schedule and the profile's own times (measured ones of a measured profile) whenever they are asked
for; nothing of it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from hyperoffload_core.explain.moves import move_verdicts
from hyperoffload_core.explain.step import step_of
from hyperoffload_core.explain.verdicts import Cause, verdicts_of
from hyperoffload_core.recording import Profile


@dataclass(frozen=True, slots=True)
class TransferValues:
    """One transfer: times as in `explain.verdicts.TransferVerdict`; ``remedy`` is what would help the move it is part
    of (``nothing`` where that delays nothing), ``gain_ns`` by how much the step would be shorter, None where that was
    not worked out."""

    hidden_ns: int
    exposed_ns: int
    blocking_ns: int
    slack_ns: int
    cause: Cause
    remedy: str
    gain_ns: int | None


def transfer_values(profile: Profile, step: int) -> dict[int, TransferValues]:
    """Values of each transfer of a step, by transfer id."""
    view = step_of(profile, step)
    move_of = {part: m for m in move_verdicts(view) for part in m.parts}
    return {
        v.transfer: TransferValues(
            v.hidden_ns,
            v.exposed_ns,
            v.blocking_ns,
            v.slack_ns,
            v.cause,
            move_of[v.transfer].remedy.kind,
            move_of[v.transfer].remedy.gain_ns,
        )
        for v in verdicts_of(view)
    }
