"""Which scripts a page asks for with its first bytes. The largest are those of charts (plotly.js) and of grids
(ag-grid); a page gets early what its first sight needs, and the rest when it is there."""

from __future__ import annotations

import re
from typing import Any

import dash
import flask

PLOTLY = "_dash-component-suites/plotly/package_data/plotly.min.js"
GRID = "_dash-component-suites/dash_ag_grid/async-community.js"
CHARTS_FIRST = re.compile(r"/(run|compare|experiments)\b")
# Its grids stand far below its chart.
GRIDS_LATER = re.compile(r"/run/")
_GRID_SCRIPT = re.compile(r'<script src="([^"]*/dash_ag_grid/[^"]*)"></script>\s*')


class Dashboard(dash.Dash):
    """A Dash application whose index depends on the page asked for."""

    def interpolate_index(self, **parts: Any) -> str:
        path = flask.request.path
        prefix = self.config.requests_pathname_prefix
        early = [PLOTLY] if CHARTS_FIRST.match(path) else []
        if GRIDS_LATER.match(path):
            # Named for assets/later.js, which loads it for the first grid.
            parts["scripts"] = _GRID_SCRIPT.sub(r'<meta name="grid-script" content="\1">', parts["scripts"])
        else:
            early.append(GRID)
        links = "".join(f'<link rel="preload" as="script" href="{prefix}{script}">' for script in early)
        parts["metas"] = f"{parts['metas']}{links}"
        page: str = super().interpolate_index(**parts)
        return page
