"""A picture of growth: panels with both axes logarithmic, as a plain SVG file that any browser and GitHub shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 420, 300, 64, 44, 34, 32


@dataclass(frozen=True)
class Panel:
    """Points (x, y), both above 0; ``target`` is a point that must not be exceeded, drawn as a cross with its name."""

    title: str
    x_title: str
    points: Sequence[tuple[float, float]]
    target: tuple[float, float] | None = None
    target_name: str = ""


def svg_of(panels: Sequence[Panel]) -> str:
    """The panels side by side."""
    body = [f'<g transform="translate({n * WIDTH},0)">{_panel(panel)}</g>' for n, panel in enumerate(panels)]
    size = f'width="{WIDTH * len(panels)}" height="{HEIGHT}" viewBox="0 0 {WIDTH * len(panels)} {HEIGHT}"'
    style = "text{font:12px sans-serif;fill:#333}.t{font-weight:bold}.m{text-anchor:middle}.e{text-anchor:end}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(body)}</svg>\n'
    )


def _panel(panel: Panel) -> str:
    marked = [*panel.points, *([panel.target] if panel.target else [])]
    (x_low, x_high), (y_low, y_high) = (_decades([p[axis] for p in marked]) for axis in (0, 1))

    def x_of(x: float) -> float:
        return LEFT + (log10(x) - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT)

    def y_of(y: float) -> float:
        return HEIGHT - BOTTOM - (log10(y) - y_low) / (y_high - y_low) * (HEIGHT - BOTTOM - TOP)

    parts = [f'<text class="t" x="{LEFT}" y="20">{escape(panel.title)}</text>']
    for power in range(x_low, x_high + 1):
        x = x_of(10**power)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text class="m" x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}">{10**power:,}</text>')
    for power in range(y_low, y_high + 1):
        y = y_of(10.0**power)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text class="e" x="{LEFT - 6}" y="{y + 4:.1f}">{10.0**power:g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text class="m" x="{middle:.1f}" y="{HEIGHT - 8}">{escape(panel.x_title)}</text>')
    line = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in panel.points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f77b4" stroke-width="2"/>')
    parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3.5" fill="#1f77b4"/>' for x, y in panel.points]
    if panel.target:
        x, y = x_of(panel.target[0]), y_of(panel.target[1])
        cross = f"M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"
        parts.append(f'<path d="{cross}" stroke="#d62728" stroke-width="2"/>')
        parts.append(f'<text class="e" x="{x - 9:.1f}" y="{y + 4:.1f}">{escape(panel.target_name)}</text>')
    return "".join(parts)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around the values, at least one apart."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)
