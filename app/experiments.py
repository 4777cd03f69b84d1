"""The experiments of this project as they were written down, and those a person made: runs of one graph that differ in
strategy and limit.

`make bench` writes docs/benchmarks.md and docs/benchmarks-schedules.csv beside the program; a program installed without
its repository has neither.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from db.database import Database
from db.queries import RunRow, list_runs
from hyperoffload_core.sizes import format_bytes

DOCS = Path(__file__).resolve().parent.parent / "docs"
REPORT = "benchmarks.md"
CELLS = "benchmarks-schedules.csv"
OURS = "hyperoffload"
MOST_RUNS = 5_000


@dataclass(frozen=True)
class Table:
    """A table of the report; ``right`` says which columns hold numbers."""

    heads: tuple[str, ...]
    right: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Prose:
    """Paragraphs and lists as Markdown, without links (their targets are files of the repository)."""

    text: str


@dataclass(frozen=True)
class Listing:
    """Output of a command, word for word."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A picture of the report; ``path`` is a file."""

    path: Path
    words: str


Block = Table | Prose | Listing | Picture


@dataclass(frozen=True)
class Section:
    """One experiment. ``origin`` says which command made it, when and on what machine."""

    name: str
    title: str
    origin: str
    blocks: tuple[tuple[str, tuple[Block, ...]], ...]
    """(heading, blocks): the first heading is empty, the others are those inside the section."""


@dataclass(frozen=True)
class Cell:
    """One strategy on a workload, a hardware and a limit, predicted: a row of benchmarks-schedules.csv.

    ``outcome``: the schedule is "met" or "over" the limit (by ``over_bytes``), or there is none and ``note`` says why.
    """

    workload: str
    hardware: str
    limit: str
    strategy: str
    outcome: str
    limit_bytes: int
    over_bytes: int
    step_ns: int
    bound_ns: int
    exposed_ns: int
    peak_bytes: int
    bytes_out: int
    bytes_in: int
    transfers: int
    compile_s: float
    note: str


@dataclass(frozen=True)
class Point:
    """One schedule under one limit, as plots show it. ``bound_ns``: no schedule is faster; 0 where it is not known.

    ``words`` say what else there is to it, ``run_id`` is the recorded run, None for a row of the report.
    """

    strategy: str
    kind: Literal["predicted", "measured"]
    limit_bytes: int
    step_ns: int
    bound_ns: int
    met: bool
    words: str
    run_id: int | None = None


@dataclass(frozen=True)
class Sweep:
    """Runs of one graph on one hardware that differ in strategy or limit, newest first."""

    graph_hash: str
    model: str
    hardware: str
    runs: tuple[RunRow, ...]

    @property
    def name(self) -> str:
        """What the address calls it."""
        return f"{self.graph_hash[:12]}-{self.hardware}"


def read_sections(docs: Path = DOCS) -> tuple[Section, ...]:
    """The sections of the report in its order; none where there is no report."""
    path = docs / REPORT
    return _sections(path, path.stat().st_mtime_ns) if path.is_file() else ()


def read_cells(docs: Path = DOCS) -> tuple[Cell, ...]:
    """Every strategy in every cell of workload, hardware and limit; none where they were not written."""
    path = docs / CELLS
    return _cells(path, path.stat().st_mtime_ns) if path.is_file() else ()


def points_of_cells(cells: Iterable[Cell]) -> list[Point]:
    """What has a schedule, as points."""
    return [
        Point(
            c.strategy,
            "predicted",
            c.limit_bytes,
            c.step_ns,
            c.bound_ns,
            c.outcome == "met",
            f"limit {c.limit}" + (f", over it by {format_bytes(c.over_bytes)}" if c.outcome == "over" else ""),
        )
        for c in cells
        if c.outcome in ("met", "over")
    ]


def find_sweeps(runs: Sequence[RunRow]) -> list[Sweep]:
    """The graphs of which there are runs with at least two different pairs of strategy and limit on one hardware; the
    one that was worked on last comes first. ``runs`` are newest first."""
    groups: dict[tuple[str, str], list[RunRow]] = {}
    for run in runs:
        if run.step_median_ns is not None:
            groups.setdefault((run.graph_hash, run.hardware), []).append(run)
    return [
        Sweep(graph, rows[0].model, hardware, tuple(rows))
        for (graph, hardware), rows in groups.items()
        if len({(run.strategy, run.memory_limit_bytes) for run in rows}) > 1
    ]


def recorded_sweeps(database: Database) -> list[Sweep]:
    """The `find_sweeps` of the newest recorded runs."""
    return find_sweeps(list_runs(database, limit=MOST_RUNS))


def rows_of_runs(runs: Iterable[RunRow]) -> list[dict[str, Any]]:
    """A row of a table a run: sizes in bytes, times in ns; ``over`` is its step over the bound, less one."""
    return [
        {
            "id": r.id,
            "strategy": r.strategy,
            "kind": r.kind,
            "limit": r.memory_limit_bytes,
            "used": r.device_bytes,
            "step": r.step_median_ns,
            "bound": r.lower_bound_ns,
            "over": (r.step_median_ns or 0) / r.lower_bound_ns - 1 if r.lower_bound_ns else None,
            "exposed": r.exposed_ns,
            "blocking": r.blocking_ns,
        }
        for r in runs
    ]


def points_of_runs(runs: Iterable[RunRow]) -> list[Point]:
    """A point a run."""
    points = []
    for run in runs:
        used = run.device_bytes or 0
        over = used - run.memory_limit_bytes
        words = f"run {run.id}, {format_bytes(used)} of device memory"
        points.append(
            Point(
                run.strategy,
                run.kind,
                run.memory_limit_bytes,
                run.step_median_ns or 0,
                run.lower_bound_ns,
                over <= 0,
                words + (f", over the limit by {format_bytes(over)}" if over > 0 else ""),
                run.id,
            )
        )
    return points


@lru_cache(maxsize=4)
def _sections(path: Path, _written: int) -> tuple[Section, ...]:
    sections = []
    for part in re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        first, *others = re.split(r"^### ", body, flags=re.MULTILINE)
        origin, rest = _origin(first)
        inside = [("", tuple(_blocks(rest, path.parent)))]
        for other in others:
            heading, _, text = other.partition("\n")
            inside.append((heading.strip(), tuple(_blocks(text, path.parent))))
        name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
        sections.append(Section(name, title.strip(), origin, tuple(inside)))
    return tuple(sections)


def _origin(text: str) -> tuple[str, str]:
    """The line that names the command, and what is left without it."""
    found = re.search(r"^`python -m [^`]+`[^\n]*$", text, flags=re.MULTILINE)
    return (found[0].replace("`", ""), text[: found.start()] + text[found.end() :]) if found else ("", text)


def _blocks(text: str, docs: Path) -> Iterator[Block]:
    for part in re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL):
        if part.startswith("```"):
            yield Listing(part.partition("\n")[2].removesuffix("```").rstrip())
            continue
        for paragraph in re.split(r"\n\s*\n", part.strip()):
            picture = re.fullmatch(r"!\[([^\]]*)\]\(([^)]+)\)", paragraph.strip())
            if picture and (docs / picture[2]).is_file():
                yield Picture(docs / picture[2], picture[1])
            elif paragraph.startswith("|"):
                yield _table(paragraph.splitlines())
            elif paragraph.strip():
                yield Prose(re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", paragraph))


def _table(lines: Sequence[str]) -> Table:
    heads, marks, *rows = (tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in lines)
    width = len(heads)
    return Table(
        heads,
        tuple(mark.endswith(":") for mark in marks),
        tuple((row + ("",) * width)[:width] for row in rows),
    )


@lru_cache(maxsize=4)
def _cells(path: Path, _written: int) -> tuple[Cell, ...]:
    with path.open(encoding="utf-8", newline="") as lines:
        return tuple(_cell(row) for row in csv.DictReader(lines))


def _cell(row: dict[str, str]) -> Cell:
    def number(name: str) -> int:
        return int(row[name] or 0)

    return Cell(
        row["workload"],
        row["hardware"],
        row["limit"],
        row["strategy"],
        row["outcome"],
        number("limit_bytes"),
        number("over_bytes"),
        number("step_ns"),
        number("bound_ns"),
        number("exposed_ns"),
        number("peak_bytes"),
        number("bytes_out"),
        number("bytes_in"),
        number("transfers"),
        float(row["compile_s"] or 0),
        row["note"],
    )
