"""The comparison as Markdown that reads well as plain text too: tables, and curves and lanes drawn in characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.sizes import format_bytes, format_ns
from profiles import shown
from profiles.comparison import Comparison, LabelledProfile
from profiles.lanes import lanes
from profiles.plain import markdown_text, visible
from profiles.series import busy_fraction, downsample, memory_curve
from profiles.shown import Cell, Table

_WIDTH = 72
_LEVELS = " ▁▂▃▄▅▆▇█"
_LABEL = 60


def comparison_markdown(comparison: Comparison, profiles: Sequence[LabelledProfile]) -> str:
    """The whole report; ``profiles`` are those the comparison was made of, in the same order."""
    c = comparison
    title = " and ".join(dict.fromkeys(markdown_text(side.model, _LABEL) for side in c.sides))
    blocks = [
        f"# {title}: {len(c.sides)} profiles compared",
        f"**{markdown_text(c.verdict, None)}**",
        *(f"> {markdown_text(note, None)}" for note in c.notes),
        "## Conditions",
        _conditions(c),
        _section(shown.numbers_table(c)),
        "## Device memory over the step",
        _curves(profiles),
        _section(shown.peak_table(c, profiles), 3),
        "## Compute and copies",
        _lanes(profiles),
        "## Decisions",
        *(_section(table, 3) for table in shown.decision_tables(c)),
        "## Where time went",
        *(_section(table, 3) for table in shown.time_tables(c)),
        _section(shown.transfers_table(c)),
    ]
    return "\n\n".join(blocks) + "\n"


def _conditions(c: Comparison) -> str:
    facts = [dict(shown.conditions(side)) for side in c.sides]
    heads = ("", *(side.label + (", the baseline" if i == c.baseline else "") for i, side in enumerate(c.sides)))
    names = dict.fromkeys(name for each in facts for name in each)
    rows = tuple((Cell(name), *(Cell(each.get(name, shown.DASH)) for each in facts)) for name in names)
    return _table(Table("", "", heads, len(heads), rows, len(rows), ""))


def _section(table: Table, level: int = 2) -> str:
    hint = f"{markdown_text(table.hint, None)}\n\n" if table.hint else ""
    return f"{'#' * level} {table.title}\n\n{hint}{_table(table)}"


def _table(table: Table) -> str:
    if not table.rows:
        return table.nothing
    lines = [
        _line(markdown_text(head, _LABEL) for head in table.heads),
        _line("---" if i < table.left else "--:" for i in range(len(table.heads))),
        *(_line(_cell(cell) for cell in row) for row in table.rows),
    ]
    if table.total > len(table.rows):
        lines.append(f"\nThe {len(table.rows)} largest of {table.total:,}; the CSV export has them all.")
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    return markdown_text(cell.text) + (f" ({markdown_text(cell.small)})" if cell.small else "")


def _curves(profiles: Sequence[LabelledProfile]) -> str:
    """One row of bars a profile, all on one scale: the most held in each slice of the longest step."""
    curves = [memory_curve(item.profile, item.profile.median_step) for item in profiles]
    longest, highest = _longest(profiles), max(curve.peak[1] for curve in curves)
    rows = []
    for item, curve in zip(profiles, curves, strict=True):
        kept = downsample(curve, _WIDTH)
        rows.append((item, _bars(_most(kept.times_ns, kept.total, longest) / max(highest, 1)), curve.peak[1]))
    return _drawn([f"{bars}  {_label(item)}, peak {format_bytes(peak)}" for item, bars, peak in rows], longest)


def _most(times_ns: NDArray[np.int64], total: NDArray[np.int64], longest_ns: int) -> NDArray[np.float64]:
    """The most held in each slice; a step that ends earlier holds nothing after its end."""
    edges = longest_ns * np.arange(_WIDTH + 1) // _WIDTH
    held = np.zeros(_WIDTH)
    for i, (low, high) in enumerate(pairwise(edges.tolist())):
        first = max(int(np.searchsorted(times_ns, low, side="right")) - 1, 0)
        held[i] = total[first : int(np.searchsorted(times_ns, high, side="left"))].max(initial=0)
    return held


def _lanes(profiles: Sequence[LabelledProfile]) -> str:
    """Three rows of bars a profile: how busy compute and both directions are in each slice of the longest step."""
    longest, lines = _longest(profiles), []
    for item in profiles:
        drawn = lanes(item.profile, item.profile.median_step)
        lines.append(f"{_label(item)}, step {format_ns(_span(item))}")
        for name, lane in (("compute", drawn.compute), ("copy out", drawn.copy_out), ("copy in", drawn.copy_in)):
            lines.append(f"{_bars(busy_fraction(lane.start_ns, lane.end_ns, 0, longest, _WIDTH))}  {name}")
    return _drawn(lines, longest)


def _drawn(lines: Sequence[str], longest_ns: int) -> str:
    slice_ns = format_ns(longest_ns // _WIDTH)
    scale = f"Each character is {slice_ns}; a full block is the highest peak, or a slice that is busy all the time."
    return "```text\n" + "\n".join(lines) + f"\n```\n\n{scale}"


def _label(item: LabelledProfile) -> str:
    """A label inside a code block, which only a line of backticks could end."""
    return visible(f"{item.label} ({item.profile.kind})", _LABEL).replace("`", "'")


def _bars(parts: NDArray[np.float64]) -> str:
    # What is there at all is seen.
    level = np.where(parts > 0, np.maximum(np.rint(parts * (len(_LEVELS) - 1)), 1), 0).astype(int)
    return "".join(_LEVELS[i] for i in level.clip(0, len(_LEVELS) - 1).tolist())


def _longest(profiles: Sequence[LabelledProfile]) -> int:
    return max(1, *(_span(item) for item in profiles))


def _span(item: LabelledProfile) -> int:
    return int(item.profile.steps.step_ns[item.profile.median_step])
