"""The whole step as a small picture; the page's brush over it shows and moves the window of the chart above."""

from __future__ import annotations

from urllib.parse import quote

import numpy as np

from app.dashboard import theme
from app.dashboard.views.timeline import Timeline

BINS = 400
WIDTH, HEIGHT = 10_000, 1_000


def picture(timeline: Timeline) -> str:
    """Live memory over the step as the address of an SVG image, to be stretched to the width of the chart: another
    chart would cost the browser a tenth of a second."""
    live = timeline.main.live
    times = live.kept(0, timeline.end_ns, BINS)
    x = np.round(times / timeline.end_ns * WIDTH).astype(int)
    y = np.round(HEIGHT - live.at(times) / max(timeline.main.peak[1] * 1.05, 1) * HEIGHT).astype(int)
    steps = "".join(f"H{a}V{b}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    colour = theme.COMPUTE
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">'
        f'<path d="M0 {HEIGHT}{steps}V{HEIGHT}Z" fill="{colour}" fill-opacity="0.35" stroke="{colour}" '
        'vector-effect="non-scaling-stroke"/></svg>'
    )
    return f"data:image/svg+xml,{quote(svg)}"
