"""What if: the answer to a question about a schedule, and how it was found.

*Replayed*: the same schedule with other durations or edges, played again; nothing else is planned anew, so a planner
that starts over may find more. *Recompiled*: the policy with the change compiled again at effort ``fast``; then the
policy without the change is compiled alike, so that the difference is the change's.
"""

from __future__ import annotations

import glob
from dataclasses import dataclass, replace
from typing import Literal

from hyperoffload_core.compile import InfeasibleError, compile_schedule
from hyperoffload_core.cost import Durations, original_durations
from hyperoffload_core.errors import UserError, near_matches
from hyperoffload_core.explain.earlier import NotPossibleError, started_earlier
from hyperoffload_core.explain.questions import Earlier, Keep, OtherLimit, OtherLink, QuestionError, parse_question
from hyperoffload_core.explain.replay import events_of, with_link
from hyperoffload_core.explain.step import step_of
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.policy import Policy, PolicyError, Rule, policy_from_document, rule_matches
from hyperoffload_core.retimed import with_times
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.simulator import simulate
from hyperoffload_core.sizes import format_bytes, format_ns, format_rate
from hyperoffload_core.strategies import find_strategy

Method = Literal["replayed", "recompiled"]


@dataclass(frozen=True, slots=True)
class Numbers:
    """Of one step, all predicted; ``peak_bytes`` is the live peak."""

    step_ns: int
    peak_bytes: int
    reserved_bytes: int
    exposed_ns: int
    blocking_ns: int
    bytes_out: int
    bytes_in: int


@dataclass(frozen=True)
class Answer:
    """``before`` is the schedule as it is, ``after`` with the change, ``unchanged`` the policy compiled again without
    it (only of what was recompiled). Where the change is not possible ``after`` is None and ``reason`` says why in one
    sentence. ``schedule`` is the one behind ``after``."""

    question: str
    method: Method
    before: Numbers
    after: Numbers | None
    unchanged: Numbers | None
    reason: str
    text: str
    schedule: Schedule | None

    @property
    def possible(self) -> bool:
        return self.after is not None


def what_if(schedule: Schedule, question: str, durations: Durations | None = None) -> Answer:
    """Answer one of `questions.FORMS` about a schedule. Raises `QuestionError` for words that are none.

    ``durations`` (of the ops of the graph without recomputed ones) are those to compile again with, if they are better
    known than the schedule's own.
    """
    asked = parse_question(question)
    if isinstance(asked, Earlier | OtherLink):
        return _replayed(schedule, question, asked)
    if durations is None:
        own = Durations(schedule.durations_ns, schedule.duration_source)
        durations = original_durations(schedule.graph, own)
    return _recompiled(schedule, question, asked, durations)


def numbers_of(schedule: Schedule) -> Numbers:
    m = schedule.metrics
    return Numbers(m.step_ns, m.peak_live_bytes, m.reserved_bytes, m.exposed_ns, m.blocking_ns, m.bytes_out, m.bytes_in)


def _replayed(schedule: Schedule, question: str, asked: Earlier | OtherLink) -> Answer:
    before = numbers_of(schedule)
    try:
        if isinstance(asked, OtherLink):
            hardware = _other_link(schedule.hardware, asked)
            changed = _on_link(schedule, hardware)
            what = f"with {_link_words(hardware)} "
        else:
            changed, what = started_earlier(schedule, _transfer(schedule, asked), asked.by_ns), ""
    except NotPossibleError as error:
        return Answer(question, "replayed", before, None, None, str(error), f"not possible: {error}", None)
    after = numbers_of(changed)
    text = f"the same schedule, played again, {what}takes {_change(before, after)}"
    return Answer(question, "replayed", before, after, None, "", text, changed)


def _transfer(schedule: Schedule, asked: Earlier) -> int:
    found = next((t for t in schedule.transfers if t.id == asked.id), None)
    if found is None:
        raise QuestionError(f"this schedule has no transfer {asked.id}; `hyperoffload explain` lists them")
    if found.kind != asked.kind:
        raise QuestionError(f"transfer {asked.id} is a {found.kind}, not a {asked.kind}")
    return found.id


def _on_link(schedule: Schedule, hardware: Hardware) -> Schedule:
    """The schedule on another link; of its bound only the part that knows no link is left."""
    view = step_of(schedule)
    events = with_link(view, events_of(view), "store", hardware.link_out)
    events = with_link(view, events, "prefetch", hardware.link_in)
    op_ns, compute_ns = schedule.durations_ns, sum(schedule.durations_ns)
    on = replace(schedule, hardware=hardware, metrics=replace(schedule.metrics, lower_bound_ns=compute_ns))
    return with_times(on, simulate(schedule, op_ns=op_ns, transfer_ns=events.transfer_ns))


def _other_link(hardware: Hardware, asked: OtherLink) -> Hardware:
    def rate(now: int) -> int:
        return asked.bytes_per_s if asked.bytes_per_s is not None else max(1, round(now * (asked.factor or 1)))

    out, into = hardware.link_out, hardware.link_in
    if asked.direction in ("out", "both"):
        out = replace(out, bytes_per_s=rate(out.bytes_per_s))
    if asked.direction in ("in", "both"):
        into = replace(into, bytes_per_s=rate(into.bytes_per_s))
    return replace(hardware, link_out=out, link_in=into)


def _link_words(hardware: Hardware) -> str:
    out, into = format_rate(hardware.link_out.bytes_per_s), format_rate(hardware.link_in.bytes_per_s)
    return f"a link of {out}" if out == into else f"a link of {out} out and {into} in"


def _recompiled(schedule: Schedule, question: str, asked: Keep | OtherLimit, durations: Durations) -> Answer:
    before = numbers_of(schedule)
    try:
        policy = _policy(schedule)
        changed = compiled_again(schedule, _with_change(schedule, policy, asked), durations)
    except (InfeasibleError, NotPossibleError, PolicyError) as error:
        return Answer(question, "recompiled", before, None, None, str(error), f"not possible: {error}", None)
    unchanged = numbers_of(compiled_again(schedule, policy, durations))
    after = numbers_of(changed)
    effort = " (effort fast)" if "effort" in policy.options else ""
    text = (
        f"recompiled{effort} the step takes {_change(unchanged, after)}, compared with the same compilation "
        f"without the change; the schedule as it is takes {format_ns(before.step_ns)}"
    )
    return Answer(question, "recompiled", before, after, unchanged, "", text, changed)


def compiled_again(schedule: Schedule, policy: Policy, durations: Durations) -> Schedule:
    """A policy compiled for the graph and hardware of a schedule."""
    return compile_schedule(schedule.graph.original, durations, schedule.hardware, policy)


def _policy(schedule: Schedule) -> Policy:
    """The policy a schedule was compiled from, with its limit in bytes, and at effort fast where there is a choice."""
    try:
        policy = policy_from_document({"strategy": schedule.strategy, **schedule.policy})
        strategy = find_strategy(policy.strategy)
    except UserError as error:
        raise NotPossibleError(f"this schedule cannot be compiled again: {error}") from error
    options = dict(policy.options)
    if any(o.name == "effort" for o in strategy.options):
        options["effort"] = "fast"
    limit = f"{schedule.memory_limit_bytes}B" if schedule.memory_limit_bytes > 0 else None
    return policy.model_copy(update={"options": options, "memory_limit": limit})


def _with_change(schedule: Schedule, policy: Policy, asked: Keep | OtherLimit) -> Policy:
    if isinstance(asked, OtherLimit):
        return policy.model_copy(update={"memory_limit": asked.limit})
    names = [s.name for s in schedule.graph.original.storages]
    rule = Rule(name=glob.escape(asked.name) if asked.name in names else asked.name, action="keep")
    if not rule_matches(schedule.graph.original, rule):
        near = near_matches(asked.name, names)
        meant = f"near matches: {', '.join(near)}" if near else f"there are for instance {', '.join(names[:3])}"
        raise QuestionError(f"no storage is called {asked.name!r}; {meant}")
    return policy.model_copy(update={"rules": (rule, *policy.rules)})


def _change(before: Numbers, after: Numbers) -> str:
    """``1.20 s, 110 ms shorter (-8.4%), at the same live peak of 60.0 GiB, with 3 ms exposed instead of 9 ms``"""
    less = before.step_ns - after.step_ns
    parts = [f"{format_ns(after.step_ns)}, as long as before"]
    if less:
        share = f" ({after.step_ns / before.step_ns - 1:+.1%})" if before.step_ns else ""
        parts = [f"{format_ns(after.step_ns)}, {format_ns(abs(less))} {'shorter' if less > 0 else 'longer'}{share}"]
    if after.peak_bytes == before.peak_bytes:
        parts.append(f"at the same live peak of {format_bytes(after.peak_bytes)}")
    else:
        parts.append(f"at a live peak of {format_bytes(after.peak_bytes)} instead of {format_bytes(before.peak_bytes)}")
    parts.append(f"with {format_ns(after.exposed_ns)} exposed instead of {format_ns(before.exposed_ns)}")
    return ", ".join(parts)
