"""The comparison as one HTML file that needs nothing else: no network, no server, light and dark.

plotly.js is packed into the file and unpacked by the browser, which takes 0.7 MB of the file.
Tables are plain HTML, so they are there without JavaScript too.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from importlib import resources

from hyperoffload_core.collector import collector_paused
from profiles import shown
from profiles.colours import RUN_COLOURS
from profiles.comparison import Comparison, LabelledProfile, Side
from profiles.figures import memory_figure
from profiles.figures_by_op import op_figures
from profiles.figures_lanes import gantt_figure
from profiles.plain import html_text
from profiles.plotly_js import plotly_js
from profiles.shown import MOST_ROWS, Cell, Table

_LABEL = 80


def report_html(comparison: Comparison, profiles: Sequence[LabelledProfile]) -> str:
    """The whole page; ``profiles`` are those the comparison was made of, in the same order."""
    with collector_paused():
        return _page(comparison, profiles)


def _page(c: Comparison, profiles: Sequence[LabelledProfile]) -> str:
    figures = {
        "memory": memory_figure(profiles),
        "gantt": gantt_figure(profiles),
        **op_figures(profiles, c.baseline),
    }
    title = " and ".join(dict.fromkeys(side.model for side in c.sides))
    parts = {
        "title": f"{html_text(title, _LABEL)}: {len(c.sides)} profiles compared",
        "verdict": html_text(c.verdict, None),
        "notes": "".join(f"<p class=note>{html_text(note, None)}</p>" for note in c.notes),
        "sides": "".join(_side(index, side, c.baseline) for index, side in enumerate(c.sides)),
        "numbers": _section(shown.numbers_table(c)),
        "peak": _table(shown.peak_table(c, profiles)),
        "decisions": "".join(map(_section, shown.decision_tables(c))),
        "time": "".join(map(_section, shown.time_tables(c))),
        "transfers": _section(shown.transfers_table(c)),
        "style": _text("report.css"),
        "script": _text("report.js"),
        # A closing tag inside the data would end the element it stands in.
        "figures": json.dumps(figures, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"),
        "plotly": _packed_plotly(),
    }
    page = _text("report.html")
    pieces = page.split("{{")
    return pieces[0] + "".join(parts[name] + rest for name, _, rest in (p.partition("}}") for p in pieces[1:]))


def _text(name: str) -> str:
    return resources.files("profiles").joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _packed_plotly() -> str:
    return base64.b64encode(gzip.compress(plotly_js(), mtime=0)).decode()


def _side(index: int, side: Side, baseline: int) -> str:
    facts = [fact for fact in shown.conditions(side) if fact[0] != "kind"]
    rows = "".join(f"<dt>{escape(name)}</dt><dd><bdi>{html_text(value)}</bdi></dd>" for name, value in facts)
    mark = '<span class="tag">baseline</span>' if index == baseline else ""
    colour = RUN_COLOURS[index % len(RUN_COLOURS)]
    return (
        f'<article class="side" style="--run: {colour}"><h3><bdi>{html_text(side.label, _LABEL)}</bdi></h3>'
        f'<span class="tag {side.kind}">{side.kind}</span>{mark}<dl>{rows}</dl></article>'
    )


def _section(table: Table) -> str:
    hint = f"<p class=hint>{escape(table.hint)}</p>" if table.hint else ""
    return f"<section><h2>{escape(table.title)}</h2>{hint}{_table(table)}</section>"


def _table(table: Table) -> str:
    if not table.rows:
        return f"<p class=none>{escape(table.nothing)}</p>"
    heads = "".join(
        f"<th{' class=text' if i < table.left else ''}><bdi>{html_text(text, _LABEL)}</bdi></th>"
        for i, text in enumerate(table.heads)
    )
    rows = "".join(
        f"<tr>{''.join(_cell(cell, i < table.left) for i, cell in enumerate(row))}</tr>" for row in table.rows
    )
    more = ""
    if table.total > len(table.rows):
        more = f"<p class=none>The {MOST_ROWS} largest of {table.total:,}; the CSV export has them all.</p>"
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{more}'


def _cell(cell: Cell, is_text: bool) -> str:
    small = ""
    if cell.small:
        small = f'<small class="difference {cell.tone}">{html_text(cell.small)}</small>'
    return f"<td{' class=text' if is_text else ''}><bdi>{html_text(cell.text)}</bdi>{small}</td>"
