"""The header numbers of a run, each with what it means and the other kind's value beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from db.queries import RunRow
from hyperoffload_core.schedule import Metrics
from hyperoffload_core.sizes import format_bytes, format_ns


@dataclass(frozen=True, slots=True)
class Number:
    """A number on a card: what it is, its value with unit, what it means, and the other kind's value beside it."""

    label: str
    value: str
    note: str = ""
    other: str = ""
    tone: str = ""


def run_numbers(run: RunRow, planned: Metrics) -> list[Number]:
    """Cards of a run with at least one step; ``planned`` are the schedule's own (predicted) numbers."""
    measured = run.kind == "measured"
    assert run.step_median_ns is not None and run.peak_bytes is not None
    share = run.peak_bytes / run.memory_limit_bytes
    over = run.peak_bytes > run.memory_limit_bytes
    spread = (
        f"median of {run.step_count}, {format_ns(run.step_min_ns or 0)} to {format_ns(run.step_max_ns or 0)}"
        if run.step_count > 1
        else "one step"
    )
    return [
        Number(
            "Step time",
            format_ns(run.step_median_ns),
            spread,
            _beside(measured, planned.step_ns, run.step_median_ns, format_ns),
        ),
        Number(
            "Peak device memory",
            format_bytes(run.peak_bytes),
            f"{share:.0%} of the limit {format_bytes(run.memory_limit_bytes)}",
            _beside(measured, planned.peak_live_bytes, run.peak_bytes, format_bytes),
            "bad" if over else "",
        ),
        Number(
            "Blocking",
            format_ns(run.blocking_ns or 0),
            "compute waits for transfers",
            _beside(measured, planned.blocking_ns, run.blocking_ns or 0, format_ns),
            "bad" if (run.blocking_ns or 0) > 0.02 * run.step_median_ns else "good",
        ),
        Number(
            "Exposed",
            format_ns(run.exposed_ns or 0),
            "transfers with no compute beside",
            _beside(measured, planned.exposed_ns, run.exposed_ns or 0, format_ns),
        ),
        Number(
            "Overlap",
            "–" if run.overlap is None else f"{run.overlap:.0%}",
            "no transfers" if run.overlap is None else f"of {format_ns(run.transfer_ns or 0)} transfers hidden",
        ),
        Number(
            "Moved per step",
            format_bytes((run.bytes_out or 0) + (run.bytes_in or 0)),
            f"{format_bytes(run.bytes_out or 0)} out, {format_bytes(run.bytes_in or 0)} in",
        ),
    ]


def _beside(measured: bool, predicted: int, value: int, words: Callable[[int], str]) -> str:
    """The prediction for a measured number, with how far it is off."""
    if not measured:
        return ""
    text = f"predicted {words(predicted)}"
    if value and predicted and abs(predicted / value - 1) >= 0.0005:
        return f"{text} ({predicted / value - 1:+.1%})"
    return text
