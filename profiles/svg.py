"""The charts of a comparison as one SVG file, drawn from the same figures as the HTML report, without a browser.

Only what those figures use is drawn: lines (plain or stepped, dashed), closed polygons, markers, level lines with a
label, block titles, and linear axes. Colours are for a white ground, which the file brings with it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape, unescape
from typing import Any

from profiles.comparison import Comparison, LabelledProfile
from profiles.figures import memory_figure
from profiles.figures_by_op import op_figures
from profiles.figures_lanes import gantt_figure
from profiles.plain import visible

WIDTH = 1240
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 20, 34, 46
_LETTERS = 150
_DASHES = {"dash": "7 4", "dot": "2 3"}
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#4b5565}.head{font-size:16px;font-weight:650;fill:#171b22}"
    ".strong{font-size:13px;fill:#171b22}.end{text-anchor:end}.middle{text-anchor:middle}"
    ".grid{stroke:#e6e9ee}.edge{stroke:#cdd3dc;fill:none}"
)
_Figure = dict[str, Any]


@dataclass(frozen=True)
class _Frame:
    """Where a chart lies in the file (y from ``top``) and what of the data it shows."""

    top: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]

    def at_x(self, value: float) -> float:
        low, high = self.x
        return round(_LEFT + (value - low) / (high - low) * (WIDTH - _LEFT - _RIGHT), 2)

    def at_y(self, value: float) -> float:
        low, high = self.y
        return round(self.top + self.height - (value - low) / (high - low) * self.height, 2)


def comparison_svg(comparison: Comparison, profiles: Sequence[LabelledProfile]) -> str:
    """Verdict, curves and lanes over time and by op; ``profiles`` are those the comparison was made of."""
    figures = [
        ("Device memory over the median step", memory_figure(profiles)),
        ("Compute and copies", gantt_figure(profiles)),
    ]
    by_op = op_figures(profiles, comparison.baseline)
    figures.append(("Device memory while each op runs", by_op["memory_by_op"]))
    figures.append(("Compute and copies, by op", by_op["lanes_by_op"]))
    figures.append(("How much later than in the baseline each op ends", by_op["behind_by_op"]))
    parts, top = [], 28.0
    for line in textwrap.wrap(visible(comparison.verdict, None), _LETTERS):
        parts.append(_text(24, top, line, "strong"))
        top += 19
    for title, figure in figures:
        top += 22
        parts.append(_text(24, top, title, "head"))
        drawn, height = _chart(figure, top)
        parts += drawn
        top += height
    height = math.ceil(top + 10)
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><title>Comparison of {len(profiles)} profiles</title>'
        f'<style>{_STYLE}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _chart(figure: _Figure, top: float) -> tuple[list[str], float]:
    """One figure below ``top``, and how high it is."""
    layout, parts = figure["layout"], list[str]()
    lines = [t for t in figure["data"] if t["mode"] == "lines"]
    legend, legend_height = _legend([t for t in lines if t.get("showlegend", True)], top + 22)
    top += legend_height
    frame = _Frame(top + _TOP, layout["height"] - _TOP - _BOTTOM, *_ranges(figure, lines))
    parts += legend + _axes(frame, layout)
    for trace in lines:
        parts.append(_line(frame, trace))
    for trace in figure["data"]:
        if trace["mode"] == "markers" and trace["marker"].get("opacity") != 0:
            for x, y in zip(trace["x"], trace["y"], strict=True):
                px, py = frame.at_x(x), frame.at_y(y)
                parts.append(f'<path d="M{px} {py - 6}l6 6l-6 6l-6 -6z" fill="{trace["marker"]["color"]}"/>')
    for shape in layout.get("shapes", ()):
        y = frame.at_y(shape["y0"])
        stroke = f'stroke="{shape["line"]["color"]}" stroke-dasharray="2 3"'
        parts.append(f'<path d="M{_LEFT} {y}H{WIDTH - _RIGHT}" {stroke}/>')
        parts.append(_text(_LEFT + 6, y - 5, shape["label"]["text"]))
    for note in layout.get("annotations", ()):
        parts.append(_text(_LEFT, frame.at_y(note["y"]) + 4, note["text"], "strong"))
    return parts, legend_height + layout["height"]


def _ranges(figure: _Figure, lines: Sequence[_Figure]) -> tuple[tuple[float, float], tuple[float, float]]:
    layout = figure["layout"]
    if "range" in layout["yaxis"]:
        low, high = layout["yaxis"]["range"]
        return tuple(layout["xaxis"]["range"]), (low, high)
    values = [v for trace in lines for v in trace["y"] if v is not None]
    levels = [shape["y0"] for shape in layout.get("shapes", ())]
    low, high = min([0.0, *values, *levels]), max([*values, *levels], default=1.0)
    room = (high - low) * 0.06 or 1.0
    return tuple(layout["xaxis"]["range"]), (low - (room if low < 0 else 0), high + room)


def _axes(frame: _Frame, layout: _Figure) -> list[str]:
    bottom, right = frame.top + frame.height, WIDTH - _RIGHT
    parts = []
    for value, text in _ticks(frame.x):
        x = frame.at_x(value)
        parts.append(f'<path class="grid" d="M{x} {frame.top}V{bottom}"/>{_text(x, bottom + 18, text, "middle")}')
    parts.append(_text((_LEFT + right) / 2, bottom + 38, layout["xaxis"]["title"]["text"], "middle"))
    axis = layout["yaxis"]
    if "tickvals" in axis:
        parts += [
            _text(_LEFT - 8, frame.at_y(v) + 4, text, "end")
            for v, text in zip(axis["tickvals"], axis["ticktext"], strict=True)
        ]
    else:
        for value, text in _ticks(frame.y):
            y = frame.at_y(value)
            parts.append(f'<path class="grid" d="M{_LEFT} {y}H{right}"/>{_text(_LEFT - 8, y + 4, text, "end")}')
        parts.append(_text(24, frame.top - 10, axis["title"]["text"]))
    parts.append(f'<path class="edge" d="M{_LEFT} {frame.top}V{bottom}H{right}"/>')
    return parts


def _ticks(span: tuple[float, float]) -> list[tuple[float, str]]:
    """Round values, about six of them, inside a range given in either direction."""
    low, high = min(span), max(span)
    rough = (high - low) / 6 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [(n * step, f"{n * step:,.{decimals}f}") for n in range(first, last + 1)]


def _line(frame: _Frame, trace: _Figure) -> str:
    """A line or the outlines of polygons; a None begins another one, a stepped line holds its value until the next."""
    stepped, path, pen = trace["line"].get("shape") == "hv", [], False
    last_y = 0.0
    for x, y in zip(trace["x"], trace["y"], strict=True):
        if x is None or y is None:
            pen = False
            continue
        px, py = frame.at_x(x), frame.at_y(y)
        if not pen:
            path.append(f"M{px} {py}")
        elif stepped:
            path.append(f"H{px}" if py == last_y else f"H{px}V{py}")
        else:
            path.append(f"L{px} {py}")
        pen, last_y = True, py
    fill = trace["fillcolor"] if trace.get("fill") else "none"
    dash = _DASHES.get(trace["line"].get("dash", ""))
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    line = trace["line"]
    return f'<path d="{"".join(path)}" fill="{fill}" stroke="{line["color"]}" stroke-width="{line["width"]}"{dashed}/>'


def _legend(traces: Sequence[_Figure], top: float) -> tuple[list[str], float]:
    parts, x, rows = [], float(_LEFT), 1
    for trace in traces:
        name = unescape(trace["name"])
        wide = 46 + 7.2 * len(name)
        if x > _LEFT and x + wide > WIDTH - _RIGHT:
            x, rows = float(_LEFT), rows + 1
        y = top + 19 * (rows - 1)
        dash = _DASHES.get(trace["line"].get("dash", ""))
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        thick = 8 if trace.get("fill") else 2
        stroke = f'stroke="{trace["line"]["color"]}" stroke-width="{thick}"'
        parts.append(f'<path d="M{x} {y - 4}h26" {stroke}{dashed}/>')
        parts.append(_text(x + 32, y, trace["name"]))
        x += wide
    return parts, 19.0 * rows


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    """``text`` is plotly's: its entities are characters. Each line of text keeps its own direction of writing."""
    marks = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y:g}"{marks} unicode-bidi="isolate">{escape(unescape(text))}</text>'
