"""Lines between boxes as an SVG picture that lies below them. It holds numbers only, no names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from app.dashboard import theme

Point = tuple[float, float]
# Visible on a light and on a dark ground; kinds differ by dash as well as by colour.
STYLES: dict[str, tuple[str, float, str]] = {
    "data": ("#8A94A6", 1.4, ""),
    "control": ("#8A94A6", 1.2, "2 4"),
    "wait": (theme.COPY_OUT, 1.5, ""),
}


@dataclass(frozen=True, slots=True)
class Curve:
    """A line with an arrow at its end, drawn from ``start`` in the direction of ``first``, to ``end`` from ``last``."""

    kind: str
    start: Point
    first: Point
    last: Point
    end: Point
    width: float | None = None
    opacity: float = 1.0


def across(kind: str, start: Point, end: Point) -> Curve:
    """A curve that leaves and arrives level."""
    reach = max(24.0, abs(end[0] - start[0]) * 0.45)
    return Curve(kind, start, (start[0] + reach, start[1]), (end[0] - reach, end[1]), end)


def picture(curves: Iterable[Curve], width: float, height: float) -> str:
    """A data address of the picture."""
    heads = "".join(
        f'<marker id="{kind}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
        for kind, (colour, _, _) in STYLES.items()
    )
    document = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" fill="none">'
        f"<defs>{heads}</defs>{''.join(_path(curve) for curve in curves)}</svg>"
    )
    return "data:image/svg+xml," + quote(document, safe=" =/:;,'()<>")


def _path(curve: Curve) -> str:
    colour, width, dash = STYLES[curve.kind]
    start, *bends = (f"{x:.1f} {y:.1f}" for x, y in (curve.start, curve.first, curve.last, curve.end))
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<path d="M{start}C{" ".join(bends)}" stroke="{colour}" stroke-width="{curve.width or width:.1f}"{dashed} '
        f'opacity="{curve.opacity:g}" marker-end="url(#{curve.kind})"/>'
    )
