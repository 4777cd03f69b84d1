"""The pieces pages are made of: head, card, panel, tag, states, grid. Text goes in as text, never as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_ag_grid
import dash_mantine_components as dmc
from dash import dcc, html

from app.dashboard.icons import icon
from app.dashboard.theme import GRID_THEME
from app.dashboard.views.numbers import Number


def card(number: Number) -> html.Div:
    value, _, unit = number.value.rpartition(" ")
    children: list[Any] = [
        html.Div(number.label, className="label"),
        html.Div([value, html.Small(unit)] if value else number.value, className="value"),
    ]
    if number.note:
        children.append(html.Div(number.note, className="note"))
    if number.other:
        children.append(html.Div(number.other, className="other"))
    return html.Div(children, className=f"card tone-{number.tone}" if number.tone else "card")


def cards(numbers: Sequence[Number]) -> html.Div:
    return html.Div([card(n) for n in numbers], className="cards")


def tag(text: str, tone: str = "") -> html.Span:
    return html.Span(text, className=f"tag {tone}".strip())


def swatch(colour: str) -> html.I:
    return html.I(className="swatch", style={"background": colour})


def panel(title: str, children: Any, hint: Any = None, tools: Any = None, **properties: Any) -> html.Section:
    """A titled surface; ``tools`` sit at the right of the title."""
    head = [html.Div([html.H2(title), html.Div(hint, className="hint") if hint is not None else None])]
    if tools is not None:
        head.append(html.Div(tools))
    return html.Section([html.Div(head, className="panel-head"), *_as_list(children)], className="panel", **properties)


def head(title: Any, sub: Any = None, tools: Sequence[Any] = (), crumb: Any = None) -> html.Div:
    return html.Div(
        [
            html.Div(
                [
                    html.Div(crumb, className="crumb") if crumb is not None else None,
                    html.H1(title),
                    html.Div(sub, className="sub") if sub is not None else None,
                ]
            ),
            dmc.Group(list(tools), gap="xs"),
        ],
        className="head",
    )


def state(shape: str, title: str, text: Any, *actions: Any) -> html.Div:
    """An empty or error state: what is (not) here, and the next step."""
    return html.Div(
        [icon(shape, 40), html.H2(title), html.P(text), dmc.Group(list(actions), justify="center")], className="state"
    )


def command(text: str) -> html.Code:
    return html.Code(text, className="command")


def notice(tone: str, text: Any, role: str = "status") -> html.Div:
    """A message in the page; tones are info, good, warn, bad."""
    shape = {"good": "check", "info": "info"}.get(tone, "warning")
    return html.Div([icon(shape), html.Div(text)], className=f"notice {tone}", role=role)


def link_button(text: str, href: str, shape: str | None = None, variant: str = "default", **properties: Any) -> Any:
    """A link that looks like a button (it opens with the keyboard like any link)."""
    return dcc.Link(
        html.Span([icon(shape) if shape else None, text], className=f"button {variant}"),
        href=href,
        className="button-link",
        **properties,
    )


def button(text: str, identity: Any, shape: str | None = None, variant: str = "default", **properties: Any) -> Any:
    return dmc.Button(
        text, id=identity, variant=variant, size="sm", leftSection=icon(shape) if shape else None, **properties
    )


def facts(pairs: Sequence[tuple[str, Any]]) -> html.Dl:
    return html.Dl([cell for name, value in pairs for cell in (html.Dt(name), html.Dd(value))], className="facts")


def grid(
    identity: Any, columns: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]] | None, **settings: Any
) -> Any:
    """An ag-grid in the dashboard's dress; ``options`` are merged into its grid options. With ``rows`` None the
    grid asks for them."""
    options = {"theme": GRID_THEME, "suppressCellFocus": False, "animateRows": False, **settings.pop("options", {})}
    return dash_ag_grid.AgGrid(
        id=identity,
        columnDefs=list(columns),
        # Columns are shown as they are: guessed from its first value, one that mixes numbers and words shows errors.
        defaultColDef={
            "sortable": True,
            "resizable": True,
            "filter": False,
            "cellDataType": False,
            **settings.pop("default_column", {}),
        },
        dashGridOptions=options,
        dangerously_allow_code=False,
        **({} if rows is None else {"rowData": list(rows)}),
        **settings,
    )


def size_column(field: str, title: str, **settings: Any) -> dict[str, Any]:
    return _number_column(field, title, "bytes(params.value)", settings)


def time_column(field: str, title: str, **settings: Any) -> dict[str, Any]:
    return _number_column(field, title, "time(params.value)", settings)


def _number_column(field: str, title: str, formatter: str, settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "field": field,
        "headerName": title,
        "type": "rightAligned",
        "valueFormatter": {"function": formatter},
        "filter": "agNumberColumnFilter",
        **settings,
    }


def _as_list(children: Any) -> list[Any]:
    return list(children) if isinstance(children, (list, tuple)) else [children]
