"""plotly.js for charts in the browser and in HTML reports: its bundle of charts on two axes.

The file is plotly.js-cartesian-dist-min 4.1.1 of npm as it was published, under the licence beside it. The one in the
Python package plotly draws maps and solids too; it is three times as large, and a browser that opens the dashboard for
the first time waits half a second for reading it.
"""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def plotly_js() -> bytes:
    """The script; it defines ``window.Plotly``."""
    return resources.files(__name__).joinpath("plotly-cartesian.min.js").read_bytes()
