"""The header numbers of a run, each with what it means and the other kind's value beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from db.queries import RunRow
from hyperoffload_core.recording import Profile
from hyperoffload_core.sizes import format_bytes, format_ns


@dataclass(frozen=True, slots=True)
class Number:
    """A number on a card: what it is, its value with unit, what it means, and the other kind's value beside it."""

    label: str
    value: str
    note: str = ""
    other: str = ""
    tone: str = ""


def run_numbers(run: RunRow, live_peak_bytes: int, predicted: Profile | None) -> list[Number]:
    """Cards of a run with at least one step; ``live_peak_bytes`` the highest point of its memory
    curve, ``predicted`` the prediction for a measured run."""
    assert run.step_median_ns is not None and run.device_bytes is not None
    blocking, exposed = run.blocking_ns or 0, run.exposed_ns or 0
    spread = "one step"
    if run.step_count > 1:
        spread = f"median of {run.step_count}: {format_ns(run.step_min_ns or 0)} to {format_ns(run.step_max_ns or 0)}"
    share = run.device_bytes / run.memory_limit_bytes
    cards = [
        Number(
            "Step time",
            format_ns(run.step_median_ns),
            spread,
            _beside(predicted, "step_ns", run.step_median_ns, format_ns),
        ),
        Number(
            "Peak device memory",
            format_bytes(run.device_bytes),
            f"{share:.0%} of the limit {format_bytes(run.memory_limit_bytes)}",
            _peak_words(run, live_peak_bytes),
            "bad" if share > 1 else "",
        ),
        Number(
            "Blocking",
            format_ns(blocking),
            "compute waits for transfers",
            _beside(predicted, "blocking_ns", blocking, format_ns),
            "bad" if blocking > 0.02 * run.step_median_ns else "good",
        ),
        Number(
            "Exposed",
            format_ns(exposed),
            "transfers without compute beside",
            _beside(predicted, "exposed_ns", exposed, format_ns),
        ),
        Number(
            "Overlap",
            "none" if run.overlap is None else f"{run.overlap:.0%}",
            "no transfers" if run.overlap is None else f"of {format_ns(run.transfer_ns or 0)} of transfers hidden",
        ),
        Number(
            "Moved per step",
            format_bytes((run.bytes_out or 0) + (run.bytes_in or 0)),
            f"{format_bytes(run.bytes_out or 0)} out, {format_bytes(run.bytes_in or 0)} in",
        ),
    ]
    return cards if run.bit_identical is None else [*cards, _results(run, run.bit_identical)]


def _results(run: RunRow, same: bool) -> Number:
    """Whether offloading left results as they are; with the reason where one was recorded (random ops)."""
    note = run.reason or "losses and parameters, against MindSpore's graph mode"
    return Number("Results", "bit-identical" if same else "differ", note, tone="good" if same else "bad")


def _peak_words(run: RunRow, live_peak_bytes: int) -> str:
    """The card shows address space, gaps between storages included; the live peak beside it is without them."""
    planned = f"planned {format_bytes(run.reserved_bytes)}, " if run.kind == "measured" else ""
    return f"{planned}live {format_bytes(live_peak_bytes)}"


def _beside(predicted: Profile | None, name: str, value: int, words: Callable[[int], str]) -> str:
    """The prediction for a measured number, with how far it is off."""
    if predicted is None:
        return ""
    expected = int(getattr(predicted.steps, name)[0])
    text = f"predicted {words(expected)}"
    # A percentage of a number near nothing says nothing.
    if value <= 0 or min(value, expected) * 20 < max(value, expected) or abs(expected / value - 1) < 0.0005:
        return text
    return f"{text} ({expected / value - 1:+.1%})"
