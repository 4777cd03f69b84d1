"""The pieces of the graph page: drawn neighbourhoods, the overview of layers, lists, details, what a search found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html

from app.dashboard import parts, theme
from app.dashboard.views.graph_boxes import Around, Box, Drawing, style
from app.dashboard.views.graph_details import Cell, NodeDetails, Page, Way
from app.dashboard.views.graph_overview import HEIGHT, WIDTH, Overview
from app.dashboard.views.graph_query import Asked, query_of
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.plain import visible

STAGE_TITLES = {"captured": "As captured", "scheduled": "As scheduled, with cache operators"}


def drawn(stage: str, drawing: Drawing, picked: str) -> Any:
    """Boxes as buttons over the picture of their lines; Tab passes them from left to right."""
    more = f"; the {drawing.left_out:,} further away are left out" if drawing.left_out else ""
    count = len(drawing.boxes)
    boxes = [_box(stage, box, picked) for box in sorted(drawing.boxes, key=lambda b: (b.left, b.top))]
    return html.Div(
        [
            html.Div(
                [html.H2(STAGE_TITLES[stage]), html.Span(f"{count} node{'s' * (count != 1)}{more}", className="hint")],
                className="graph-stage",
            ),
            html.Div(
                html.Div(
                    [html.Img(src=drawing.lines, alt="", className="graph-lines"), *boxes],
                    className="graph-canvas",
                    style={"width": drawing.width, "height": drawing.height},
                ),
                className="graph-scroll",
            )
            if boxes
            else html.Div("Nothing of it is in this graph.", className="quiet"),
        ],
        className="graph-part",
    )


def _box(stage: str, box: Box, picked: str) -> Any:
    key = f"{box.node[0]}:{box.node[1]}"
    return html.Button(
        [
            html.Span([html.B(box.title), html.Span(box.label.number, className="number")], className="top"),
            html.Span(box.name, className="name"),
        ],
        id={"graph-node": f"{stage}:{key}"},
        className=box_class(box.label.look, box.centre, key == picked),
        style=style(box),
        title=box.label.hint,
        type="button",
        **{"aria-label": box.label.hint},
    )


def box_class(look: str, centre: bool, picked: bool) -> str:
    return f"graph-box {look}{' centre' * centre}{' picked' * picked}"


def listed(drawing: Drawing) -> Any:
    """The same nodes as a table."""
    titles = ("Order", "Kind", "Name", "What")
    rows = [
        html.Tr(
            [
                html.Td(box.label.number, className="num"),
                html.Td(box.label.title),
                html.Td(
                    html.Button(
                        box.label.name,
                        id={"graph-row": f"{box.node[0]}:{box.node[1]}"},
                        className="link",
                        type="button",
                    )
                ),
                html.Td(box.label.note),
            ]
        )
        for box in sorted(drawing.boxes, key=lambda b: (b.left, b.top))
    ]
    head = html.Tr([html.Th(title, className="num" if title == "Order" else "") for title in titles])
    return html.Div(html.Table([html.Thead(head), html.Tbody(rows)], className="plain"), className="scroll")


def legend(stages: str) -> Any:
    keys = [
        html.Span([html.I(className="graph-key data"), "reads what the other wrote"]),
        html.Span([html.I(className="graph-key control"), "must not come earlier"]),
    ]
    if stages != "captured":
        keys += [
            html.Span([html.I(className="graph-key wait"), "waits for or of a transfer"]),
            html.Span([parts.swatch(theme.COPY_IN), "Prefetch"]),
            html.Span([parts.swatch(theme.COPY_OUT), "Store"]),
            html.Span([html.I(className="graph-key detach"), "Detach"]),
        ]
    keys.append(html.Span("#12: place in the order, from 0"))
    return html.Div(keys, className="legend")


def layer_boxes(run: int, shown: Overview) -> Any:
    """Layers as links; the width of a line grows with the bytes that flow along it."""
    boxes = [
        dcc.Link(
            [
                html.Span(
                    [html.B(visible(box.layer)), html.Span(f"{box.ops} op{'s' * (box.ops != 1)}", className="number")],
                    className="top",
                ),
                html.Span(f"{format_ns(box.time_ns)} · {format_bytes(box.bytes)}", className="name"),
                html.Span(_shares(box.bytes_by_class), className="shares"),
            ],
            href=f"/graph/{run}{query_of(Asked(Around('layer', layer=box.layer, phase=box.phase), 0))}",
            className="graph-box layer",
            style={"left": left, "top": top, "width": WIDTH, "height": HEIGHT},
            title=_share_words(box.bytes_by_class),
        )
        for box, (left, top) in sorted(zip(shown.layers.boxes, shown.corners, strict=True), key=lambda b: b[1][::-1])
    ]
    headings = [html.Div(phase, className="graph-phase", style={"left": left}) for phase, left in shown.headings]
    left_out = shown.layers.left_out
    more = f"{left_out} more layers are left out; search for what you miss." if left_out else ""
    return html.Div(
        [
            html.Div(
                html.Div(
                    [html.Img(src=shown.lines, alt="", className="graph-lines"), *headings, *boxes],
                    className="graph-canvas",
                    style={"width": shown.width, "height": shown.height},
                ),
                className="graph-scroll layers",
            ),
            html.Div(more, className="hint"),
        ]
    )


def _shares(by_class: dict[str, int]) -> list[Any]:
    whole = max(1, sum(by_class.values()))
    return [
        html.I(style={"width": f"{size / whole:.2%}", "background": theme.class_colour(c)})
        for c, size in by_class.items()
    ]


def _share_words(by_class: dict[str, int]) -> str:
    return ", ".join(f"{theme.class_title(c)} {format_bytes(size)}" for c, size in by_class.items())


def details_panel(told: NodeDetails | None) -> list[Any]:
    if told is None:
        return [html.Div("This graph has nothing of this kind and number.", className="quiet")]
    ways = html.Div([dcc.Link(way.text, href=way.href) for way in told.ways], className="graph-ways")
    return [
        html.Div(html.Div([html.H2(told.title), html.Div(told.subtitle, className="hint")]), className="panel-head"),
        ways,
        parts.facts([(label, _cells(words)) for label, words in told.facts]),
    ]


def _cells(words: Sequence[Cell]) -> list[Any]:
    cells: list[Any] = []
    for number, word in enumerate(words):
        if number:
            cells.append(html.Br())
        cells.append(dcc.Link(word.text, href=word.href) if isinstance(word, Way) else word)
    return cells


def found_list(page: Page, rows: Sequence[tuple[str, int, str, str]], more: int) -> Any:
    """What a search found: (op or storage, id, name, what it is) as links."""
    links = [
        html.Li(
            [
                dcc.Link(visible(name), href=page.graph(Around("op" if kind == "op" else "storage", identity))),
                html.Span(f" {what}", className="hint"),
            ]
        )
        for kind, identity, name, what in rows
    ]
    rest = html.Div(f"and {more:,} more; say more of the name", className="hint") if more else None
    return html.Div([html.Ul(links), rest], className="graph-found")
