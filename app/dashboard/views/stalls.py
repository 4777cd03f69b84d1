"""Where the step loses time, in words: how much to what, the dearest stalls, and what would help."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.dashboard import theme
from app.dashboard.views.clipping import clipped, sentence
from app.dashboard.views.step import StepView
from app.dashboard.views.transfers import window_around
from hyperoffload_core.explain.explanation import Explanation, blocking_words
from hyperoffload_core.explain.remedies import Remedy
from hyperoffload_core.explain.stalls import Stall
from hyperoffload_core.explain.verdicts import Cause
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.alive import alive_at

MOST_STALLS = 5
MOST_REMEDIES = 3
FAR_MORE = 10
"""What gains this many times as much as the first remedy is not hidden behind it, whatever it needs."""
CAUSE_TITLES: dict[Cause, str] = {
    "link": "The link carries too much",
    "memory": "Memory is full",
    "order": "The schedule could do better",
    "dependency": "The data is ready too late",
}
CAUSE_WORDS: dict[Cause, str] = {"link": "the link", "memory": "memory", "order": "the order", "dependency": "the data"}
CAUSE_MEANINGS: dict[Cause, str] = {
    "link": "several transfers in a row keep it busy until the last one is needed",
    "memory": "a transfer could not start because there was no room under the limit",
    "order": "there was room, data and a free link, but the schedule made it wait",
    "dependency": "what has to be moved was written, or freed, only just before",
}
# One hue, so that all lost time reads as one; the legend beside it names each part.
_OPACITY = (1.0, 0.74, 0.52, 0.34)


@dataclass(frozen=True, slots=True)
class RemedyRow:
    """``what_if`` is the question that tries it, empty where there is none; ``free`` whether it needs neither more
    memory nor another link."""

    text: str
    gain: str
    what_if: str
    free: bool


@dataclass(frozen=True, slots=True)
class StallRow:
    """``transfer`` is the one waited for, ``place`` the window (ns) that shows the stall; ``more`` remedies would help
    as well."""

    rank: int
    lost: str
    share: str
    width: float
    cause: str
    title: str
    text: str
    transfer: int
    start_ns: int
    place: tuple[int, int]
    remedies: tuple[RemedyRow, ...]
    more: tuple[RemedyRow, ...]


@dataclass(frozen=True, slots=True)
class CauseRow:
    """``gentle``: what helps most with the memory and the link there are; ``most``: what helps most of all, None where
    that is the same."""

    title: str
    meaning: str
    lost: str
    share: str
    stalls: str
    gentle: RemedyRow | None
    most: RemedyRow | None


@dataclass(frozen=True)
class StallsView:
    """``head`` says how much of the step is lost to what, ``counted`` why that is not the blocking time of its card,
    ``bound`` how far it is from the best possible. ``bar`` has (title, colour, share of the step)."""

    head: str
    counted: str
    bound: str
    bar: tuple[tuple[str, str, float], ...]
    causes: tuple[CauseRow, ...]
    stalls: tuple[StallRow, ...]
    left_out: str


def stalls_view(found: Explanation, end_ns: int) -> StallsView:
    """The lost time of an explained step; ``end_ns`` is the end of the time axis."""
    lost, step = found.lost, max(1, found.step_ns)
    shown = lost.stalls[:MOST_STALLS]
    rest = lost.stalls[MOST_STALLS:]
    return StallsView(
        head=_head(found),
        counted=blocking_words(found),
        bound=_bound(found),
        bar=tuple(_bar(found, step)),
        causes=tuple(_cause(found, cause, ns) for cause, ns in lost.by_cause.items()),
        stalls=tuple(_stall(found, rank, stall, end_ns) for rank, stall in enumerate(shown, 1)),
        left_out=(
            f"and {len(rest):,} smaller stalls with {format_ns(sum(s.lost_ns for s in rest))} in all" if rest else ""
        ),
    )


@dataclass(frozen=True, slots=True)
class Highlight:
    """Something worth looking at first: ``pick`` (kind, id), where it is on the axis (ns) and the time to choose."""

    label: str
    text: str
    pick: tuple[str, int]
    place: tuple[int, int] | None
    at_ns: int


def highlights(view: StepView) -> list[Highlight]:
    """The worst stall and the largest storage at the peak, without explaining anything: at hand at once."""
    found = []
    graph, waiting = view.profile.schedule.graph, view.lanes.waiting
    if len(waiting.item):
        worst = int(np.argmax(waiting.end_ns - waiting.start_ns))
        start, end = int(waiting.start_ns[worst]), int(waiting.end_ns[worst])
        transfer = view.transfers[int(waiting.item[worst])]
        name = clipped(graph.storages[transfer.storage].name)
        from_ns, to_ns = view.times["transfer"][transfer.id]
        # One that waits for longer than its transfer takes waits for what the link carries before it, too.
        behind = "transfers up to the" if end - start > to_ns - from_ns else "the"
        move = f"{transfer.kind.title()} of {name}"
        text = f"{format_ns(end - start)} at {format_ns(start)}, waiting for {behind} {move}"
        place = window_around((start, end), view.end_ns)
        found.append(Highlight("Worst stall", text, ("transfer", transfer.id), place, start))
    peak_ns = view.peak[0]
    largest = next((a for a in alive_at(view.profile, peak_ns, view.step or 0) if a.storage is not None), None)
    if largest is not None and largest.storage is not None:
        text = f"{clipped(largest.name)}, {format_bytes(largest.bytes)} at {format_ns(peak_ns)}"
        found.append(Highlight("Largest at the peak", text, ("storage", largest.storage), None, peak_ns))
    return found


def _head(found: Explanation) -> str:
    if not found.lost.total_ns:
        return f"No time is lost to transfers: no op of this step waits for one ({found.kind})."
    parts = [f"{format_ns(ns)} to {CAUSE_WORDS[cause]}" for cause, ns in found.lost.by_cause.items()]
    share = found.lost.total_ns / max(1, found.step_ns)
    return (
        f"{share:.0%} of the step is lost to transfers: {format_ns(found.lost.total_ns)} of "
        f"{format_ns(found.step_ns)} ({found.kind}), {_and(parts)}."
    )


def _bound(found: Explanation) -> str:
    """The distance to the bound; of a measured step that of the plan it follows: both know the planned durations only,
    a measured time beside them would compare two different things."""
    metrics, limit = found.schedule.metrics, found.schedule.memory_limit_bytes
    bound = metrics.lower_bound_ns
    if not bound:
        return ""
    measured = found.kind == "measured"
    step = metrics.step_ns if measured else found.step_ns
    which = f"the plan, with {format_ns(step)}," if measured else "this one"
    note = " (predicted, with planned durations)" if measured else ""
    under = f"under the limit of {format_bytes(limit)} " if limit > 0 else ""
    least = f"No schedule {under}can take less than {format_ns(bound)}{note}"
    over = step - bound
    if over <= bound // 1000:
        return f"{least}: {which} does not take more."
    return f"{least}; {which} is {over / bound:.1%} above, so at most {format_ns(over)} can be gained."


def _bar(found: Explanation, step: int) -> list[tuple[str, str, float]]:
    parts = [("Compute", theme.COMPUTE, found.compute_ns)]
    causes = list(found.lost.by_cause.items())
    for (cause, ns), opacity in zip(causes, _OPACITY, strict=False):
        colour = f"color-mix(in srgb, {theme.BLOCKING} {opacity:.0%}, var(--surface))"
        parts.append((f"Lost to {CAUSE_WORDS[cause]}", colour, ns))
    other = found.step_ns - found.compute_ns - found.lost.total_ns
    if other > step // 200:
        parts.append(("Between ops", "var(--edge)", other))
    return [(f"{title} {format_ns(ns)} ({ns / step:.0%})", colour, ns / step) for title, colour, ns in parts if ns > 0]


def _cause(found: Explanation, cause: Cause, lost_ns: int) -> CauseRow:
    stalls = [s for s in found.lost.stalls if s.cause == cause]
    remedies = [r for s in stalls for r in s.remedies]
    gentle = max((r for r in remedies if r.free), key=_gain, default=None)
    most = max(remedies, key=_gain, default=None)
    count = len(stalls)
    return CauseRow(
        title=CAUSE_TITLES[cause],
        meaning=CAUSE_MEANINGS[cause],
        lost=format_ns(lost_ns),
        share=f"{lost_ns / max(1, found.lost.total_ns):.0%}",
        stalls=f"{count:,} stall{'s' if count != 1 else ''}",
        gentle=None if gentle is None else remedy_row(gentle),
        most=None if most is None or most == gentle else remedy_row(most),
    )


def _gain(remedy: Remedy) -> int:
    return remedy.gain_ns or 0


def _stall(found: Explanation, rank: int, stall: Stall, end_ns: int) -> StallRow:
    graph = found.schedule.graph
    tried = stall.remedies[:MOST_REMEDIES]
    first = [r for n, r in enumerate(tried) if n == 0 or _gain(r) >= FAR_MORE * _gain(tried[0])]
    before = "before the end of the step" if stall.op is None else f"before {clipped(graph.ops[stall.op].name)}"
    return StallRow(
        rank=rank,
        lost=format_ns(stall.lost_ns),
        share=f"{stall.lost_ns / max(1, found.step_ns):.1%}",
        width=stall.lost_ns / max(1, found.lost.stalls[0].lost_ns),
        cause=CAUSE_WORDS[stall.cause],
        title=before,
        text=sentence(stall.text),
        transfer=stall.transfer,
        start_ns=stall.start_ns,
        place=window_around((stall.start_ns, stall.start_ns + stall.lost_ns), end_ns),
        remedies=tuple(remedy_row(r) for r in first),
        more=tuple(remedy_row(r) for r in tried if r not in first),
    )


def remedy_row(remedy: Remedy) -> RemedyRow:
    gain = "" if remedy.gain_ns is None else f"{format_ns(remedy.gain_ns)} shorter (predicted)"
    return RemedyRow(sentence(remedy.text), gain, remedy.what_if, remedy.free)


def _and(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
