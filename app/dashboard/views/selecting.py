"""The numbers of a selected stretch of time, in words."""

from __future__ import annotations

from app.dashboard.views.step import StepView
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.selection import Selection, selection


def selection_of(view: StepView, selected: tuple[int, int]) -> Selection:
    return selection(view.profile, view.lanes, view.live, *selected, view.own)


def selection_facts(chosen: Selection) -> list[tuple[str, str, str]]:
    """(label, value, note) of each number."""

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
