"""What a policy is predicted to change against a run: numbers side by side, and decisions on storages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from app.dashboard.views.clipping import LONGEST_IN_CELL, LONGEST_SENTENCE, clipped
from app.predicting import Prediction, Tiers
from db.queries import RunRow
from hyperoffload_core.ir import TENSOR_CLASSES, Graph
from hyperoffload_core.schedule import Metrics
from hyperoffload_core.sizes import format_bytes, format_ns

NAMED = 12
"""Storages of a group that are named."""


@dataclass(frozen=True, slots=True)
class Change:
    """One number: what it is, as predicted, the run's own with its kind, and the difference in words and judgement."""

    label: str
    then: str
    now: str
    difference: str
    tone: str


@dataclass(frozen=True, slots=True)
class Moved:
    """A storage whose tier changes: bytes moved in a step before and after."""

    name: str
    bytes: int
    before_bytes: int
    after_bytes: int


@dataclass(frozen=True, slots=True)
class DecisionGroup:
    """Storages of one class with the same change; ``largest`` are the `NAMED` largest."""

    change: str
    tensor_class: str
    count: int
    bytes: int
    largest: tuple[Moved, ...]


@dataclass(frozen=True, slots=True)
class Decisions:
    """Groups in the order of `CHANGES`, and how many storages do as before."""

    groups: tuple[DecisionGroup, ...]
    unchanged: int


LABELS = ("Step time", "Device memory", "Blocking", "Moved per step", "Above the bound")
CHANGES = ("Leaves now", "Stays now", "Moves more", "Moves less", "Another home")


def changes(run: RunRow, then: Metrics) -> list[Change]:
    """The numbers of a prediction beside those of a run with at least one step."""
    moved = (run.bytes_out or 0) + (run.bytes_in or 0)
    step = run.step_median_ns or 0
    return [
        _change(LABELS[0], then.step_ns, run.step_median_ns, format_ns, run.kind),
        _change(LABELS[1], then.reserved_bytes, run.device_bytes, format_bytes, run.kind),
        _change(LABELS[2], then.blocking_ns, run.blocking_ns, format_ns, run.kind),
        _change(LABELS[3], then.bytes_out + then.bytes_in, moved, format_bytes, run.kind),
        Change(
            LABELS[4],
            _above(then.step_ns, then.lower_bound_ns),
            # The bound of a measured run was made with other durations than it then had.
            f"{_above(step, run.lower_bound_ns)} {run.kind}" if run.kind == "predicted" else "",
            f"no step is below {format_ns(then.lower_bound_ns)}",
            "",
        ),
    ]


def decisions(graph: Graph, now: Tiers, then: Tiers) -> Decisions:
    """Which storages of the graph (the original one, without recomputed ops) change tier. Bytes moved count both ways.

    A storage *leaves* when it moves or lives in the pool; one whose home alone changes has *another home*.
    """
    before, after = (np.array(t.bytes_out, np.int64) + np.array(t.bytes_in, np.int64) for t in (now, then))
    home_before, home_after = np.array(now.pool_home, bool), np.array(then.pool_home, bool)
    left, leaves = (before > 0) | home_before, (after > 0) | home_after
    change = np.select(
        [~left & leaves, left & ~leaves, left & (after > before), left & (after < before), home_before != home_after],
        range(1, len(CHANGES) + 1),
        0,
    )
    groups = []
    for number, words in enumerate(CHANGES, 1):
        ids = np.flatnonzero(change == number)
        by_class: dict[str, list[int]] = {}
        for s in ids.tolist():
            by_class.setdefault(graph.storages[s].tensor_class, []).append(s)
        for tensor_class in sorted(by_class, key=TENSOR_CLASSES.index):
            members = sorted(by_class[tensor_class], key=lambda s: (-graph.storages[s].bytes, s))
            largest = tuple(
                Moved(clipped(storage.name, LONGEST_IN_CELL), storage.bytes, int(before[s]), int(after[s]))
                for s in members[:NAMED]
                for storage in (graph.storages[s],)
            )
            size = sum(graph.storages[s].bytes for s in members)
            groups.append(DecisionGroup(words, tensor_class, len(members), size, largest))
    return Decisions(tuple(groups), int((change == 0).sum()))


def outcome(prediction: Prediction) -> tuple[str, str]:
    """(tone, sentence) where a prediction needs one beside its numbers; empty texts otherwise."""
    if prediction.metrics is None:
        return "bad", sentence(prediction.problem)
    if prediction.over_bytes:
        return "warn", (
            f"Over the limit by {format_bytes(prediction.over_bytes)}: this strategy does not promise to keep it, "
            "and a device of that size would run out of memory."
        )
    return "", ""


def sentence(text: str) -> str:
    cut = clipped(text, LONGEST_SENTENCE)
    return cut[:1].upper() + cut[1:] + ("" if cut.endswith(".") else ".")


def effort_words(strategy_options: Sequence[str]) -> str:
    """How a preview was made, for the tag beside its numbers."""
    if "effort" in strategy_options:
        return "predicted, effort fast"
    return "predicted, one second of search" if "time_limit_s" in strategy_options else "predicted"


def _change(label: str, then: int, now: int | None, words: Callable[[int], str], kind: str) -> Change:
    if now is None:
        return Change(label, words(then), "none yet", "", "")
    difference = then - now
    if difference == 0:
        return Change(label, words(then), f"{words(now)} {kind}", "as now", "")
    sign = "+" if difference > 0 else "-"
    # A percentage of a number near nothing says nothing.
    share = f" ({difference / now:+.1%})" if now * 20 > abs(difference) else ""
    tone = "bad" if difference > 0 else "good"
    if abs(difference) * 1000 < now:
        tone = ""
    return Change(label, words(then), f"{words(now)} {kind}", f"{sign}{words(abs(difference))}{share}", tone)


def _above(step_ns: int, bound_ns: int) -> str:
    return f"{max(0.0, step_ns / bound_ns - 1):.1%}" if bound_ns else "-"
