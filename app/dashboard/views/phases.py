"""The bands above the Gantt lanes: the phases of a step, or the steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from app.dashboard.views.lane_traces import packed
from app.dashboard.views.lanes import MS

SHADES = {"forward": 0.12, "backward": 0.28, "optimizer": 0.18, "prefill": 0.12, "decode": 0.28}
MOST_NAMES = 14
Band = tuple[str, int, int, float]


def phase_shades(phases: Sequence[tuple[str, int, int]]) -> list[Band]:
    """Named bands with the strength of their shade."""
    return [(phase, start, end, SHADES[phase]) for phase, start, end in phases]


def step_shades(starts_ns: Sequence[int]) -> list[Band]:
    """Steps by number, every other one darker."""
    return [
        (f"step {step + 1}", start, end, 0.28 if step % 2 else 0.12)
        for step, (start, end) in enumerate(pairwise(starts_ns))
    ]


def band_shapes(bands: Sequence[Band], low: float, high: float) -> list[dict[str, Any]]:
    """Bands between two heights on the lanes' axis: one shape for each shade, since a browser pays for every shape."""
    by_shade: dict[float, list[str]] = {}
    for _, start, end, shade in bands:
        left, right = start / MS, end / MS
        by_shade.setdefault(shade, []).append(f"M{left},{low}H{right}V{high}H{left}Z")
    return [
        {
            "type": "path",
            "xref": "x",
            "yref": "y2",
            "path": "".join(paths),
            "line": {"width": 0},
            "fillcolor": f"rgba(128,142,166,{shade})",
            "layer": "below",
        }
        for shade, paths in by_shade.items()
    ]


def _apart(bands: Sequence[tuple[str, int, int]], least_ns: int) -> list[tuple[str, int, int]]:
    """Those whose middles are so far from each other, from the first on."""
    kept: list[tuple[str, int, int]] = []
    for band in bands:
        if not kept or band[1] + band[2] - kept[-1][1] - kept[-1][2] >= 2 * least_ns:
            kept.append(band)
    return kept


def band_trace(bands: Sequence[Band], window: tuple[int, int], middle: float) -> dict[str, Any]:
    """The names, each in the middle of what is seen of its band; of many bands those that leave each other room."""
    seen = [(name, max(start, window[0]), min(end, window[1])) for name, start, end, _ in bands]
    seen = [(name, start, end) for name, start, end in seen if end > start]
    width = window[1] - window[0]
    # A name that is wider than its band would run into the next one.
    few = [band for band in seen if (band[2] - band[1]) * 40 > width]
    named = few if len(seen) <= MOST_NAMES else _apart(seen, width // MOST_NAMES)
    return {
        "type": "scatter",
        "mode": "text",
        "yaxis": "y2",
        "x": packed(np.array([(start + end) / 2 / MS for _, start, end in named])),
        "y": packed(np.full(len(named), middle)),
        "text": [name for name, _, _ in named],
        "textfont": {"size": 11},
        "hoverinfo": "skip",
        "name": "bands",
    }
