"""The list of runs as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from app.dashboard.views.address import run_number
from db.queries import RunFilter, RunRow
from hyperoffload_core.sizes import format_bytes, format_rate
from profiles.plain import visible

STATUS_TONES = {"complete": "good", "running": "predicted", "incomplete": "warn", "failed": "bad", "cancelled": "warn"}


SHOWN = ("current", "archived", "deleted")
# Column of the table on the page -> column that the database sorts by.
SORTED_BY = {
    "id": "id",
    "model": "model",
    "hardware": "hardware",
    "strategy": "strategy",
    "limit_bytes": "memory_limit_bytes",
    "device_bytes": "device_bytes",
    "step_ns": "step_median_ns",
    "exposed_ns": "exposed_ns",
    "kind": "kind",
    "status": "status",
    "created": "created",
}
LONGEST_CELL = 300


@dataclass(frozen=True)
class RunsAsked:
    """Which runs a person wants to see: what the address of the page says. Empty fields do not matter.

    ``sort`` is a column of the table, with a ``-`` in front for the largest first.
    """

    q: str = ""
    model: str = ""
    strategy: str = ""
    hardware: str = ""
    kind: str = ""
    tag: str = ""
    show: str = "current"
    sort: str = "-created"

    @property
    def filtered(self) -> bool:
        return any((self.q.strip(), self.model, self.strategy, self.hardware, self.kind, self.tag))


def runs_asked_for(query: Mapping[str, Any]) -> RunsAsked:
    """The query of an address (or a store's fields), what is unknown or wrong in it left out."""
    names = [f.name for f in fields(RunsAsked)]
    asked = RunsAsked(**{name: str(query[name]) for name in names if query.get(name)})
    if asked.show not in SHOWN:
        asked = replace(asked, show="current")
    return asked if asked.sort.removeprefix("-") in SORTED_BY else replace(asked, sort="-created")


def run_filter(asked: RunsAsked) -> RunFilter:
    """The same as the database's filter."""
    return RunFilter(
        search=asked.q,
        model=asked.model or None,
        strategy=asked.strategy or None,
        hardware=asked.hardware or None,
        kind=asked.kind or None,
        tag=asked.tag or None,
        deleted=asked.show == "deleted",
        archived=None if asked.show == "deleted" else asked.show == "archived",
    )


def run_rows(runs: Sequence[RunRow]) -> list[dict[str, Any]]:
    """One row a run, in the order given; raw numbers (bytes, ns), which the page formats."""
    return [
        {
            "id": run.id,
            "model": _cut(run.model),
            "label": _cut(run.label),
            "note": _cut(run.note),
            "tags": [_cut(tag) for tag in run.tags],
            "hardware": _cut(run.hardware),
            "strategy": run.strategy,
            "limit_bytes": run.memory_limit_bytes if run.strategy != "none" else None,
            "device_bytes": run.device_bytes,
            "step_ns": run.step_median_ns,
            "exposed_ns": run.exposed_ns,
            "kind": "graph mode" if run.kind_words != run.kind else run.kind,
            "kind_words": run.kind_words,
            "kind_tone": run.kind,
            "status": run.status,
            "status_tone": STATUS_TONES.get(run.status, ""),
            "reason": _cut(run.reason) or (f"steps so far: {run.step_count}" if run.status == "running" else ""),
            "created": run.created.strftime("%Y-%m-%d %H:%M"),
            "deleted": run.deleted is not None,
        }
        for run in runs
    ]


def common_tags(runs: Sequence[RunRow]) -> list[str]:
    """Tags that all of the runs have, in the order of the first."""
    return [tag for tag in runs[0].tags if all(tag in run.tags for run in runs)] if runs else []


def runs_named(ids: Sequence[int]) -> str:
    """Runs in a sentence: ``run 3``, ``runs 3 and 4``, ``12 runs``."""
    if len(ids) == 1:
        return f"run {ids[0]}"
    if len(ids) <= 4:
        return f"runs {', '.join(map(str, ids[:-1]))} and {ids[-1]}"
    return f"{len(ids)} runs"


def _cut(text: str) -> str:
    return visible(text if len(text) <= LONGEST_CELL else text[:LONGEST_CELL] + "…", None)


def run_name(run: RunRow) -> str:
    """How a run is called on pages: number, model and strategy, or its label."""
    return f"#{run.id} {visible(run.label or f'{run.model} · {run.strategy}')}"


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
        run = known.get(run_number(word))
        if run is None:
            wrong.append(f"There is no run {word[:40]}; it is left out.")
        elif not run.step_count:
            wrong.append(f"Run {word} is {run.status} and holds no step; it is left out.")
        elif len(ids) == most:
            wrong.append(f"At most {most} runs can be compared; run {word} is left out.")
        else:
            ids.append(run.id)
    return ids, wrong
