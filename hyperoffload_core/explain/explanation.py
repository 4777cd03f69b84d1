"""All that is said about one step, as one value and as a JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hyperoffload_core.explain.moves import MoveVerdict, move_verdicts
from hyperoffload_core.explain.remedies import Remedy, Replays, remedies_of
from hyperoffload_core.explain.stalls import LostTime, Stall, lost_time
from hyperoffload_core.explain.step import step_of
from hyperoffload_core.explain.storages import StorageDecision, storage_decisions
from hyperoffload_core.recording import Profile, ProfileKind
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.sizes import format_ns

if TYPE_CHECKING:
    from hyperoffload_core.explain.whatif import Answer

FORMAT, VERSION = "hyperoffload.explanation", 1


@dataclass(frozen=True)
class Explanation:
    """One step explained: ``moves`` in order of start, ``storages`` by id, ``lost`` with the dearest stall first.
    ``blocking_ns`` is the step's own number (`blocking_words` says how it differs from ``lost``).

    ``kind`` and ``conditions`` say where its times come from; what would help is always predicted, with the step's own
    durations. ``replays`` works out more (`remedies_of`).
    """

    schedule: Schedule
    kind: ProfileKind
    conditions: str
    step: int
    step_ns: int
    compute_ns: int
    blocking_ns: int
    moves: tuple[MoveVerdict, ...]
    storages: tuple[StorageDecision, ...]
    lost: LostTime
    replays: Replays


def explain(source: Schedule | Profile, step: int = 0, kept: Sequence[int] = ()) -> Explanation:
    """Explain the planned step of a schedule, or one step of a profile.

    For the storages ``kept`` (ids) the gain of keeping them is worked out as well.
    """
    view = step_of(source, step)
    replays = Replays(view)
    if isinstance(source, Schedule):
        schedule, kind = source, "predicted"
        conditions = f"predicted on {source.hardware.title}; op durations: {source.duration_source}"
        blocking_ns = source.metrics.blocking_ns
    else:
        schedule, kind, conditions = source.schedule, source.kind, source.conditions
        blocking_ns = int(source.steps.blocking_ns[step])
    return Explanation(
        schedule=schedule,
        kind="measured" if kind == "measured" else "predicted",
        conditions=conditions,
        step=step,
        step_ns=view.end_ns,
        compute_ns=sum(view.op_end) - sum(view.op_start),
        blocking_ns=blocking_ns,
        moves=tuple(move_verdicts(view, replays=replays)),
        storages=tuple(storage_decisions(view, kept, replays)),
        lost=lost_time(view, replays=replays),
        replays=replays,
    )


def blocking_words(e: Explanation) -> str:
    """Why the blocking time of a measured step is not what its stalls add up to; empty where both are shown alike."""
    blocking, lost = format_ns(e.blocking_ns), format_ns(e.lost.total_ns)
    if e.kind != "measured" or blocking == lost:
        return ""
    return (
        f"Blocking, {blocking} in this step, is what the executor clocked from when it began to wait for an op's "
        "transfers until the op started. A stall is counted from the end of the op before to the end of the transfer, "
        f"{lost} in all: with what the program did while the transfer ran, without its waking up after it."
    )


def explanation_document(explanation: Explanation) -> dict[str, Any]:
    """The whole explanation as plain data: times in ns, sizes in bytes, ids as in the schedule file beside names."""
    e = explanation
    return {
        **head_document(e),
        "stalls": [stall_document(e, s) for s in e.lost.stalls],
        "transfers": [move_document(e, m) for m in e.moves],
        "storages": [storage_document(e, d) for d in e.storages],
    }


def head_document(e: Explanation) -> dict[str, Any]:
    """What every explanation document begins with."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": e.schedule.graph.name,
        "hardware": e.schedule.hardware.name,
        "strategy": e.schedule.strategy,
        "memory_limit_bytes": e.schedule.memory_limit_bytes,
        "kind": e.kind,
        "conditions": e.conditions,
        "step": e.step,
        "step_ns": e.step_ns,
        "compute_ns": e.compute_ns,
        "blocking_ns": e.blocking_ns,
        "lost_ns": e.lost.total_ns,
        "lost_by_cause_ns": dict(e.lost.by_cause),
    }


def stall_document(e: Explanation, stall: Stall) -> dict[str, Any]:
    document = asdict(stall)
    document["op_name"] = None if stall.op is None else e.schedule.graph.ops[stall.op].name
    document["storage"] = e.schedule.graph.storages[e.replays.step.transfers[stall.transfer].storage].name
    return document


def move_document(e: Explanation, move: MoveVerdict, *, remedies: bool = False) -> dict[str, Any]:
    """One move; with ``remedies`` also everything that would help it, best first."""
    document = asdict(move)
    document["storage_name"] = e.schedule.graph.storages[move.storage].name
    if remedies:
        document["remedies"] = [asdict(r) for r in remedies_of_move(e, move)]
    return document


def remedies_of_move(e: Explanation, move: MoveVerdict) -> list[Remedy]:
    """Everything that would shorten the step at this move, best first; nothing for a move that delays nothing."""
    return remedies_of(e.replays, move.parts[-1]) if move.blocking_ns else []


def storage_document(e: Explanation, decision: StorageDecision) -> dict[str, Any]:
    storage = e.schedule.graph.storages[decision.storage]
    return {
        **asdict(decision),
        "name": storage.name,
        "class": storage.tensor_class,
        "bytes": storage.bytes,
        "home": e.schedule.homes[decision.storage],
    }


def answer_document(answer: Answer) -> dict[str, Any]:
    """The answer to a what-if question, without the schedule behind it."""
    return {
        "question": answer.question,
        "possible": answer.possible,
        "method": answer.method,
        "reason": answer.reason,
        "text": answer.text,
        "before": asdict(answer.before),
        "after": None if answer.after is None else asdict(answer.after),
        "unchanged": None if answer.unchanged is None else asdict(answer.unchanged),
    }
