"""The list of runs as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from db.queries import RunRow
from hyperoffload_core.sizes import format_bytes, format_rate

STATUS_TONES = {"complete": "good", "running": "predicted", "incomplete": "warn", "failed": "bad", "cancelled": "warn"}


def run_rows(runs: Sequence[RunRow]) -> list[dict[str, Any]]:
    """One row a run, in the order given; raw numbers (bytes, ns) so that columns sort and filter as numbers."""
    return [
        {
            "id": run.id,
            "run": run.title if run.label else f"#{run.id}",
            "model": run.model,
            "hardware": run.hardware,
            "strategy": run.strategy,
            "limit_bytes": run.memory_limit_bytes,
            "device_bytes": run.device_bytes,
            "step_ns": run.step_median_ns,
            "exposed_ns": run.exposed_ns,
            "blocking_ns": run.blocking_ns,
            "kind": run.kind,
            "kind_tone": run.kind,
            "status": run.status,
            "status_tone": STATUS_TONES.get(run.status, ""),
            "created": run.created.strftime("%Y-%m-%d %H:%M"),
        }
        for run in runs
    ]


def run_name(run: RunRow) -> str:
    """How a run is called on pages: number, model and strategy, or its label."""
    return f"#{run.id} {run.label or f'{run.model} · {run.strategy}'}"


def run_conditions(run: RunRow) -> str:
    """On what the numbers of a run hold, in one line: hardware, limit, link, steps, source of the op durations."""
    link = "link as described" if run.kind == "predicted" else f"link {format_rate(run.link_bandwidth_bytes_per_s)}"
    if run.kind == "predicted" and run.link_bandwidth_bytes_per_s:
        link = f"link {format_rate(run.link_bandwidth_bytes_per_s)}"
    paced = " (paced)" if run.paced else ""
    steps = f"{run.step_count} step{'s' if run.step_count != 1 else ''}"
    parts = [run.hardware, f"limit {format_bytes(run.memory_limit_bytes)}", link + paced, steps]
    return " · ".join(parts)


def when(moment: datetime | None) -> str:
    return "not yet" if moment is None else moment.strftime("%Y-%m-%d %H:%M UTC")


def runs_asked(text: str, known: Mapping[int, RunRow], most: int) -> tuple[list[int], list[str]]:
    """The runs a comparison's address names that can be compared, and a sentence for each that cannot."""
    ids: list[int] = []
    wrong: list[str] = []
    for word in dict.fromkeys(part.strip() for part in text.split(",") if part.strip()):
        run = known.get(int(word)) if word.isdecimal() else None
        if run is None:
            wrong.append(f"There is no run {word[:40]}; it is left out.")
        elif not run.step_count:
            wrong.append(f"Run {word} is {run.status} and holds no step; it is left out.")
        elif len(ids) == most:
            wrong.append(f"At most {most} runs can be compared; run {word} is left out.")
        else:
            ids.append(run.id)
    return ids, wrong
