"""Where the boxes of layers are, and the flows between them as lines: down a column, up it, and across."""

from __future__ import annotations

import math
from dataclasses import dataclass

from app.dashboard.views.graph_layers import Flow, LayerBox, Layers
from app.dashboard.views.graph_svg import Curve, picture

WIDTH, HEIGHT = 214, 58
GAP_ACROSS, GAP_DOWN = 72, 20
TOP, MARGIN = 30, 8
# Pixels of the line with most bytes; the thinnest has one.
WIDEST = 5.0
# Flows to a layer further away are drawn faintly: there are many, and they say little.
FAR_OPACITY = 0.3


@dataclass(frozen=True)
class Overview:
    """Corners of the boxes in pixels, in the order of ``layers.boxes``, and the lines between them as a picture."""

    layers: Layers
    corners: tuple[tuple[int, int], ...]
    headings: tuple[tuple[str, int], ...]
    lines: str
    width: int
    height: int


def overview(layers: Layers) -> Overview:
    corners = tuple(
        (MARGIN + box.column * (WIDTH + GAP_ACROSS), TOP + box.row * (HEIGHT + GAP_DOWN)) for box in layers.boxes
    )
    width = len(layers.phases) * (WIDTH + GAP_ACROSS) + MARGIN
    height = TOP + layers.rows * (HEIGHT + GAP_DOWN)
    most = max((flow.bytes for flow in layers.flows), default=1)
    curves = [_curve(layers.boxes, corners, flow, most) for flow in layers.flows]
    headings = tuple((phase, MARGIN + n * (WIDTH + GAP_ACROSS)) for n, phase in enumerate(layers.phases))
    return Overview(layers, corners, headings, picture(curves, width, height), width, height)


def _curve(boxes: tuple[LayerBox, ...], corners: tuple[tuple[int, int], ...], flow: Flow, most: int) -> Curve:
    first, last = boxes[flow.before], boxes[flow.after]
    (x0, y0), (x1, y1) = corners[flow.before], corners[flow.after]
    width = 1.0 + (WIDEST - 1.0) * math.sqrt(flow.bytes / most)
    rows, columns = last.row - first.row, last.column - first.column
    if not columns and abs(rows) == 1:
        middle, down = x0 + WIDTH / 2, rows > 0
        start, end = (middle, y0 + HEIGHT * down), (middle, y1 + HEIGHT * (not down))
        return Curve("data", start, start, end, end, width)
    opacity = 1.0 if not rows else FAR_OPACITY
    bend = GAP_ACROSS * 0.6
    left, right = x0 + WIDTH * (columns >= 0), x1 + WIDTH * (columns <= 0)
    level, other = y0 + HEIGHT / 2, y1 + HEIGHT / 2
    leaving = (left + (bend if columns >= 0 else -bend), level)
    arriving = (right + (bend if columns <= 0 else -bend), other)
    return Curve("data", (left, level), leaving, arriving, (right, other), width, opacity)
