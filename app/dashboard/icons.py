"""Line icons drawn for this dashboard, in the colour of the text around them.

They are elements of the page: each picture in a style is a document of its own to the browser, made in milliseconds.
"""

from __future__ import annotations

from urllib.parse import quote

from dash import html

from app.dashboard.frozen import Frozen

# Paths on a 24 x 24 grid, stroked.
SHAPES: dict[str, str] = {
    "runs": "M4 6h16M4 12h16M4 18h10",
    "plus": "M12 5v14M5 12h14",
    "compare": "M4 17l5-7 4 4 7-9M4 21h16",
    "tune": "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
    "download": "M12 4v11M7 11l5 5 5-5M5 20h14",
    "trace": "M3 7h7M8 12h9M13 17h8",
    "play": "M7 5l12 7-12 7z",
    "stop": "M7 7h10v10H7z",
    "close": "M6 6l12 12M18 6L6 18",
    "warning": "M12 4l9 16H3zM12 10v4M12 17v.5",
    "info": "M12 3a9 9 0 100 18 9 9 0 000-18zM12 11v5M12 8v.5",
    "sun": "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2M12 20v2M2 12h2M20 12h2"
    "M5 5l1.4 1.4M17.6 17.6L19 19M19 5l-1.4 1.4M6.4 17.6L5 19",
    "moon": "M20 14.5A8 8 0 019.500 4 8 8 0 1020 14.500z",
    "memory": "M6 6h12v12H6zM9 3v3M15 3v3M9 18v3M15 18v3M3 9h3M3 15h3M18 9h3M18 15h3",
    "empty": "M4 13l3-8h10l3 8v6H4zM4 13h5l1.500 2.500h3L15 13h5",
    "zoom": "M10.500 4a6.500 6.500 0 100 13 6.500 6.500 0 000-13zM15.500 15.500L21 21",
    "check": "M5 12.500l4.500 4.500L19 7.500",
    "trash": "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
    "link": "M9 15l6-6M8 11l-3 3a3.500 3.500 0 005 5l3-3M16 13l3-3a3.500 3.500 0 00-5-5l-3 3",
    "sql": "M5 6l5 6-5 6M12 18h8",
    "tag": "M4 12V4h8l8 8-8 8zM8 8v.5",
    "archive": "M4 5h16v4H4zM6 9v10h12V9M10 13h4",
    "undo": "M8 5L4 9l4 4M4 9h10a5 5 0 010 10H9",
    "graph": "M4 5h7v5H4zM13 14h7v5h-7zM11 7.500h5.500v6.500",
    "experiments": "M10 3v6L5 19a2 2 0 001.800 2h10.400A2 2 0 0019 19L14 9V3M8 3h8M8 15h8",
    "peak": "M3 19l6-10 3 5 3-8 6 13z",
}


def icon(shape: str, size: int = 16) -> Frozen:
    """The icon as decoration: what it means stands in the text beside it or in the label of its button."""
    drawn = {"className": "glyph", "viewBox": "0 0 24 24", "style": {"width": size, "height": size}}
    return Frozen(["svg", {**drawn, "aria-hidden": "true"}, ["path", {"d": SHAPES[shape]}]])


LOGO = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#2F63E6"/>'
    '<path d="M7 22.500h18" stroke="#fff" stroke-opacity=".55" stroke-width="3" stroke-linecap="round"/>'
    '<path d="M7 16.500h6M19 16.500h6" stroke="#fff" stroke-width="3" stroke-linecap="round"/>'
    '<path d="M16 19.500V7.500M11.500 12L16 7.500l4.500 4.500" fill="none" stroke="#7FE3D6" stroke-width="3" '
    'stroke-linecap="round" stroke-linejoin="round"/></svg>'
)


def logo() -> html.Img:
    return html.Img(src="data:image/svg+xml," + quote(LOGO), width=26, height=26, alt="")
