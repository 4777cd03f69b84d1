"""What the terminal shows while work is under way, and tables of runs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from db.queries import RunRow
from hyperoffload_core.sizes import format_bytes, format_ns

# Escapes that a terminal obeys, and marks that turn the direction of writing; a text of many lines keeps its lines.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_IN_TEXT = re.compile(rf"(?![\n\t]){_CONTROLS.pattern}")


class PlainConsole(Console):
    """A terminal that shows the control characters of names instead of obeying them."""

    def print(self, *objects: Any, **settings: Any) -> None:
        super().print(*(_IN_TEXT.sub("\ufffd", o) if isinstance(o, str) else o for o in objects), **settings)


console = PlainConsole(highlight=False)
errors = PlainConsole(stderr=True, highlight=False)


@contextmanager
def progress_shown() -> Iterator[Callable[[int, int, str], None]]:
    """A ``progress(done, total, message)`` that draws a bar on standard error, or one line per stage where that is no
    terminal."""
    if not errors.is_terminal:
        last = ""

        def say(_done: int, _total: int, message: str) -> None:
            nonlocal last
            if message != last:
                errors.print(message, markup=False)
                last = message

        yield say
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=errors, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def draw(done: int, total: int, message: str) -> None:
            bar.update(task, completed=done, total=total or None, description=message)

        yield draw


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n")


def print_table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Columns as (heading, ``left`` or ``right``). Wide tables are not cut where the output is no terminal."""
    table = Table(title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False)
    for heading, side in columns:
        table.add_column(heading, justify="right" if side == "right" else "left", no_wrap=True)
    for row in rows:
        # Names come from models and people: no markup, no control characters.
        table.add_row(*(Text(_CONTROLS.sub("\ufffd", cell)) for cell in row))
    if console.is_terminal:
        console.print(table)
    else:
        Console(highlight=False, width=250).print(table)


SESSION_COLUMNS = (
    ("policy", "left"),
    ("limit", "right"),
    ("peak planned", "right"),
    ("peak measured", "right"),
    ("step median", "right"),
    ("min..max", "right"),
    ("predicted", "right"),
    ("out", "right"),
    ("in", "right"),
    ("exposed", "right"),
    ("blocking", "right"),
    ("overlap", "right"),
    ("loss", "right"),
    ("bit-identical", "left"),
)


def session_cells(title: str, measured: RunRow, predicted: RunRow | None) -> list[str]:
    """One row under `SESSION_COLUMNS`."""
    limited = measured.strategy != "none"
    return [
        title,
        format_bytes(measured.memory_limit_bytes) if limited else "-",
        format_bytes(measured.reserved_bytes),
        size(measured.peak_bytes),
        time(measured.step_median_ns),
        f"{time(measured.step_min_ns)}..{time(measured.step_max_ns)}",
        time(predicted.step_median_ns) if predicted else "-",
        size(measured.bytes_out),
        size(measured.bytes_in),
        time(measured.exposed_ns),
        time(measured.blocking_ns),
        share(measured.overlap),
        f"{measured.losses[-1]:.6f}" if measured.losses else "-",
        {True: "yes", False: "NO, see note" if measured.reason else "NO", None: "not compared"}[measured.bit_identical],
    ]


_DOCUMENT = (
    "strategy",
    "memory_limit_bytes",
    "step_count",
    "step_median_ns",
    "step_min_ns",
    "step_max_ns",
    "compute_ns",
    "exposed_ns",
    "blocking_ns",
    "transfer_ns",
    "hidden_ns",
    "overlap",
    "bytes_out",
    "bytes_in",
    "losses",
    "bit_identical",
    "conditions",
)


def session_document(title: str, measured: RunRow, predicted: RunRow | None) -> dict[str, Any]:
    """The same row as plain data; times in ns, sizes in bytes.

    ``peak_planned_bytes`` and ``peak_measured_bytes`` are device memory with its address space (what the device must
    have), ``live_peak_planned_bytes`` is without gaps between addresses.
    """
    return {
        "policy": title,
        "run": measured.id,
        "predicted_run": predicted.id if predicted else None,
        "predicted_step_ns": predicted.step_median_ns if predicted else None,
        "peak_planned_bytes": measured.reserved_bytes,
        "peak_measured_bytes": measured.peak_bytes,
        "live_peak_planned_bytes": measured.peak_planned_bytes,
        **{name: getattr(measured, name) for name in _DOCUMENT},
    }


def size(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else format_bytes(size_bytes)


def time(time_ns: int | None) -> str:
    return "-" if time_ns is None else format_ns(time_ns)


def share(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"
