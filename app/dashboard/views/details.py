"""What is known of one op, transfer or storage of a step, in words, with links to its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from app.dashboard.theme import class_title
from app.dashboard.views.clipping import clipped
from app.dashboard.views.step import StepView
from app.dashboard.views.transfers import CAUSES
from hyperoffload_core.metrics import Column
from hyperoffload_core.schedule import Transfer
from hyperoffload_core.sizes import format_bytes, format_ns, format_rate

Kind = Literal["op", "transfer", "storage"]
MOST_LINKS = 8
MOST_STAYS = 4


@dataclass(frozen=True, slots=True)
class Link:
    """Leads to the details of another thing."""

    kind: Kind
    id: int
    text: str


Words = str | Link


@dataclass(frozen=True)
class Details:
    """``facts`` are (label, words); ``span`` is where the thing lies on the time axis (ns)."""

    kind: Kind
    id: int
    title: str
    subtitle: str
    facts: tuple[tuple[str, tuple[Words, ...]], ...]
    span: tuple[int, int] | None = None
    storage: int | None = None

    @property
    def graph_place(self) -> tuple[str, int]:
        """Where it is in the graph: itself, or for a transfer the storage it moves."""
        return ("storage", self.storage) if self.storage is not None else (self.kind, self.id)


def details(view: StepView, kind: str, identity: int) -> Details | None:
    """Details of a thing; None where this step has none of this id."""
    graph = view.profile.schedule.graph
    if kind == "op" and 0 <= identity < len(graph.ops):
        return _op(view, identity)
    if kind == "storage" and 0 <= identity < len(graph.storages):
        return _storage(view, identity)
    if kind == "transfer" and identity in view.transfers:
        return _transfer(view, identity)
    return None


def _op(view: StepView, identity: int) -> Details:
    graph = view.profile.schedule.graph
    op = graph.ops[identity]
    span = view.times["op"].get(identity)
    waits = next((t.waits for t in view.profile.schedule.op_times if t.op == identity), ())
    stall = sum(
        end - start
        for item, start, end in zip(*(c.tolist() for c in _waiting(view)), strict=True)
        if item in waits and span is not None and end == span[0]
    )
    facts: list[tuple[str, tuple[Words, ...]]] = [
        ("Primitive", (op.primitive,)),
        ("Scope", (clipped(op.scope, 300) or "none",)),
        ("Phase", (op.phase,)),
        ("Time", (_span_text(span, view.kind),)),
        (
            "Planned with",
            (f"{format_ns(view.profile.schedule.durations_ns[identity])}, {view.profile.schedule.duration_source}",),
        ),
    ]
    if op.recompute_of is not None:
        facts.append(("Runs again", (_op_link(view, op.recompute_of),)))
    if stall:
        facts.append(("Waited before it", (f"{format_ns(stall)} (blocking)",)))
    if op.flops:
        facts.append(("Work", (_work(op.flops),)))
    if op.workspace_bytes:
        facts.append(("Workspace", (format_bytes(op.workspace_bytes),)))
    facts += [
        ("Reads", _some([_storage_link(view, s) for s in op.reads])),
        ("Writes", _some([_storage_link(view, s) for s in op.writes])),
    ]
    if waits:
        facts.append(
            ("Waits for", _some([_transfer_link(view, view.transfers[w]) for w in waits if w in view.transfers]))
        )
    return Details("op", identity, op.name, f"op {identity} of {len(graph.ops)}", tuple(facts), span)


def _transfer(view: StepView, identity: int) -> Details:
    schedule = view.profile.schedule
    move, verdict = view.transfers[identity], view.verdicts[identity]
    span = view.times["transfer"].get(identity)
    taken = span[1] - span[0] if span else 0
    waiting = [t.op for t in schedule.op_times if identity in t.waits]
    facts: list[tuple[str, tuple[Words, ...]]] = [
        ("Storage", (_storage_link(view, move.storage),)),
        ("Bytes", (format_bytes(move.bytes) + _part_of(view, move),)),
        ("Time", (_span_text(span, view.kind),)),
    ]
    if taken:
        facts.append(("Rate", (format_rate(move.bytes * 1_000_000_000 // taken),)))
    facts += [
        ("Hidden", (f"{format_ns(verdict.hidden_ns)} beside compute",)),
        ("Exposed", (f"{format_ns(verdict.exposed_ns)} with no compute beside",)),
        ("Blocking", (f"{format_ns(verdict.blocking_ns)} by which it delays compute or the end of the step",)),
        ("Slack", (_slack_text(verdict.slack_ns),)),
        ("Start decided by", (CAUSES[verdict.cause],)),
        (
            "Starts after",
            _some(
                [_op_link(view, o) for o in move.after_ops]
                + [_transfer_link(view, view.transfers[t]) for t in move.after_transfers]
            ),
        ),
        (
            "Waited for by",
            _some([_op_link(view, o) for o in waiting]) if waiting else ("no op; the step ends after it",),
        ),
    ]
    name = schedule.graph.storages[move.storage].name
    direction = "device to pool" if move.kind == "store" else "pool to device"
    return Details("transfer", identity, f"{move.kind.title()} {name}", direction, tuple(facts), span, move.storage)


def _storage(view: StepView, identity: int) -> Details:
    schedule = view.profile.schedule
    graph = schedule.graph
    storage = graph.storages[identity]
    accesses = graph.accesses[identity]
    moves = [move for move in schedule.moves if move[0].storage == identity]
    life = view.profile.lifetimes
    rows = (life.step == view.step) & (life.storage == identity)
    stays = sorted(zip(life.start_ns[rows].tolist(), life.end_ns[rows].tolist(), strict=True))
    shape = f"{storage.dtype} {' x '.join(map(str, storage.shape))}".strip()
    facts: list[tuple[str, tuple[Words, ...]]] = [
        ("Class", (class_title(storage.tensor_class) + (", kept from step to step" if storage.persistent else ""),)),
        ("Size", (f"{format_bytes(storage.bytes)} · {shape}",)),
        ("Home", ("the device" if schedule.homes[identity] == "device" else "the pool",)),
        ("On the device", (_stays_text(stays, view.end_ns),)),
        ("Longest idle", (_idle_text(view, identity),)),
        ("First used by", (_op_link(view, accesses[0].op),) if accesses else ("no op",)),
        ("Last used by", (_op_link(view, accesses[-1].op), _uses_text(len(accesses))) if accesses else ("no op",)),
    ]
    if storage.recompute_of is not None:
        facts.append(("Holds again", (_storage_link(view, storage.recompute_of),)))
    if moves:
        facts.append(("Transfers", _some([_transfer_link(view, t) for move in moves for t in move])))
    span = (stays[0][0], stays[-1][1]) if stays else None
    return Details(
        "storage", identity, storage.name, f"storage {identity} of {len(graph.storages)}", tuple(facts), span
    )


def _slack_text(slack_ns: int) -> str:
    if not slack_ns:
        return "none: had it ended later, so would an op or the step"
    return f"{format_ns(slack_ns)}: so much later it could have ended without delaying anything"


def _part_of(view: StepView, part: Transfer) -> str:
    if not part.partial:
        return ""
    whole = view.profile.schedule.graph.storages[part.storage].bytes
    return f", {view.parts[part.id]}: from byte {part.offset_bytes:,} of {whole:,} on"


def longest_gap(view: StepView, identity: int) -> tuple[int, int]:
    """Start and length of the longest time between two neighbouring accesses of a storage (for a persistent one also
    around the end of the step), in ns."""
    graph = view.profile.schedule.graph
    times = view.times["op"]
    used = sorted(times[a.op] for a in graph.accesses[identity] if a.op in times)
    if not used:
        return 0, view.end_ns
    gaps = [(later[0] - earlier[1], earlier[1]) for earlier, later in pairwise(used)]
    if graph.storages[identity].persistent:
        gaps.append((view.end_ns - used[-1][1] + used[0][0], used[-1][1]))
    length, start = max(gaps, default=(0, used[-1][1]))
    return start, max(0, length)


def _waiting(view: StepView) -> tuple[Column, Column, Column]:
    lane = view.lanes.waiting
    return lane.item, lane.start_ns, lane.end_ns


def _stays_text(stays: list[tuple[int, int]], end_ns: int) -> str:
    if not stays:
        return "never in this step"
    share = f"{sum(end - start for start, end in stays) / max(1, end_ns):.0%} of the step"
    spans = ", ".join(f"{format_ns(start)} to {format_ns(end)}" for start, end in stays[:MOST_STAYS])
    more = f" and {len(stays) - MOST_STAYS} more" if len(stays) > MOST_STAYS else ""
    return f"{share}: {spans}{more}"


def _idle_text(view: StepView, identity: int) -> str:
    start, length = longest_gap(view, identity)
    return f"{format_ns(length)} without use, from {format_ns(start)} on"


def _uses_text(count: int) -> str:
    return "the only use" if count == 1 else f"{count:,} uses in all"


def _span_text(span: tuple[int, int] | None, kind: str) -> str:
    if span is None:
        return "did not run in this step"
    return f"{format_ns(span[1] - span[0])} {kind}, from {format_ns(span[0])} to {format_ns(span[1])}"


def _some(words: Sequence[Words]) -> tuple[Words, ...]:
    if not words:
        return ("nothing",)
    more = len(words) - MOST_LINKS
    return (*words[:MOST_LINKS], f"and {more} more") if more > 0 else tuple(words)


def _work(flops: int) -> str:
    size, unit = next(
        ((s, u) for s, u in ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP")) if flops >= s), (1e3, "kFLOP")
    )
    return f"{flops / size:,.2f} {unit}"


def _op_link(view: StepView, op: int) -> Link:
    return Link("op", op, clipped(view.profile.schedule.graph.ops[op].name))


def _storage_link(view: StepView, storage: int) -> Link:
    s = view.profile.schedule.graph.storages[storage]
    return Link("storage", storage, f"{clipped(s.name)} ({format_bytes(s.bytes)})")


def _transfer_link(view: StepView, move: Transfer) -> Link:
    start, end = view.times["transfer"].get(move.id, (move.start_ns, move.end_ns))
    part = f", {view.parts[move.id]}" if move.id in view.parts else ""
    text = f"{move.kind.title()} at {format_ns(start)} ({format_ns(end - start)}{part}{_cost_text(view, move.id)})"
    return Link("transfer", move.id, text)


def _cost_text(view: StepView, transfer: int) -> str:
    """What it costs, or how much later it could be, and what decided its start."""
    verdict = view.verdicts.get(transfer)
    if verdict is None:
        return ""
    cost = (
        f"blocking {format_ns(verdict.blocking_ns)}" if verdict.blocking_ns else f"slack {format_ns(verdict.slack_ns)}"
    )
    return f", {cost}, waited for {CAUSES[verdict.cause]}"
