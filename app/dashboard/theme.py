"""Colours and chart defaults, in one place so that a thing has one colour everywhere (`profiles.colours` holds those
that reports use too).

The class palette keeps every pair apart in normal vision and under simulated protanopia, deuteranopia and tritanopia
(`tests/test_dashboard_theme.py` measures it) and reads on light and on dark ground. Charts are drawn without ground and
with neutral text; the style sheet sets the text and grid colours of the scheme in use, so that a change of scheme needs
no new figure.
"""

from __future__ import annotations

import math
from typing import Any

from profiles import colours

CLASS_COLOURS: dict[str, str] = {
    "weight": "#255CDD",
    "optimizer_state": "#45C1ED",
    "gradient": "#B62121",
    "activation": "#ED962F",
    "kv_cache": "#1F9252",
    "input": "#BD65A5",
    "output": "#8643A5",
    "constant": "#B3A29E",
    "workspace": "#58605C",
}
CLASS_TITLES: dict[str, str] = {
    "weight": "Weights",
    "optimizer_state": "Optimizer states",
    "gradient": "Gradients",
    "activation": "Activations",
    "kv_cache": "KV caches",
    "input": "Inputs",
    "output": "Outputs",
    "constant": "Constants",
    "workspace": "Workspace",
}

COMPUTE = colours.COMPUTE
COPY_IN = colours.COPY_IN
COPY_OUT = colours.COPY_OUT
EXPOSED = "#D99A00"
BLOCKING = colours.BLOCKING
LIMIT = colours.BLOCKING
CURSOR = "#3D7BFA"

# One colour and one dash per compared run: the dash tells them apart where the colour does not.
RUN_COLOURS = colours.RUN_COLOURS
RUN_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "solid", "dash", "dot")

FONT = 'Inter, system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif'

GRAPH_CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "responsive": True,
    "scrollZoom": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "svg"},
}

# Mantine's ten shades of a slate ground for the dark scheme and of the accent.
DARK = ["#D3D8E0", "#B3BBC8", "#8F99AA", "#6B7585", "#454D5A", "#323843", "#262B34", "#1B1F26", "#14171C", "#0E1014"]
ACCENT = ["#EBF1FF", "#D3E0FE", "#A6C0FC", "#779EFA", "#5182F8", "#3D72F6", "#2F63E6", "#2455CE", "#1D49B4", "#133A99"]

MANTINE_THEME: dict[str, Any] = {
    "primaryColor": "accent",
    "primaryShade": {"light": 6, "dark": 6},
    "colors": {"accent": ACCENT, "dark": DARK},
    "fontFamily": FONT,
    "fontFamilyMonospace": 'ui-monospace, "JetBrains Mono", SFMono-Regular, Menlo, Consolas, monospace',
    "headings": {"fontFamily": FONT, "fontWeight": "650"},
    "defaultRadius": "md",
    "cursorType": "pointer",
    "respectReducedMotion": True,
    # The choices of a field are made when it opens: a run of 200 steps has 200 of them.
    "components": {"Combobox": {"defaultProps": {"keepMounted": False}}},
}

# Colours come from style variables, so the grid follows the scheme without a callback.
GRID_THEME = {
    "function": "themeQuartz.withParams({"
    "backgroundColor: 'var(--surface)', foregroundColor: 'var(--ink)', borderColor: 'var(--edge)',"
    "headerBackgroundColor: 'var(--surface-raised)', headerTextColor: 'var(--ink-soft)',"
    "rowHoverColor: 'var(--hover)', selectedRowBackgroundColor: 'var(--selected)', accentColor: 'var(--accent)',"
    "chromeBackgroundColor: 'var(--surface-raised)', menuBackgroundColor: 'var(--surface)',"
    "fontFamily: 'inherit', fontSize: 13, headerFontSize: 12, headerFontWeight: 600,"
    "rowHeight: 36, headerHeight: 36, cellHorizontalPadding: 10,"
    "wrapperBorderRadius: 8, columnBorder: false, rowBorder: {color: 'var(--edge-soft)'}})"
}

# A time axis in ms: whole numbers for runs of minutes too, not "1M ms".
MILLISECONDS = {"ticksuffix": " ms", "exponentformat": "none", "separatethousands": True}

# The line under the pointer, through all charts on an axis.
SPIKE = {
    "showspikes": True,
    "spikemode": "across",
    "spikesnap": "cursor",
    "spikethickness": 1,
    "spikecolor": "#8A94A6",
    "spikedash": "solid",
}


def class_colour(tensor_class: str) -> str:
    return CLASS_COLOURS.get(tensor_class, CLASS_COLOURS["workspace"])


def class_title(tensor_class: str) -> str:
    return CLASS_TITLES.get(tensor_class, tensor_class)


def figure_layout(height: int) -> dict[str, Any]:
    """What every chart shares: no ground, quiet text, room for axis labels only."""
    return {
        "height": height,
        "margin": {"l": 64, "r": 16, "t": 14, "b": 36},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": "#4B5565"},
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "align": "left"},
        "showlegend": False,
        "dragmode": "zoom",
        "uirevision": "keep",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#8A94A6", "activecolor": "#3D72F6"},
    }


def axis(**settings: Any) -> dict[str, Any]:
    """A quiet axis; ``settings`` are plotly's own."""
    return {
        "gridcolor": "#E6E9EE",
        "zeroline": False,
        "linecolor": "#CDD3DC",
        "ticks": "",
        "title": {"font": {"size": 12}},
        "automargin": False,
        **settings,
    }


def logarithmic(low: float, high: float) -> dict[str, Any]:
    """Settings of a logarithmic axis on which every tick is a whole number to read: plotly's own leave the power of ten
    away, so that a 5 below 1000 means 500."""
    digits = (1, 2, 3, 5, 7) if high <= 50 * low else (1, 2, 5)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [digit * 10.0**power for power in powers for digit in digits]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,.12g}" for tick in ticks]}
