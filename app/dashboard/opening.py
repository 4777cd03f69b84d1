"""The page that a browser opens first is sent with the shell around it.

Dash would fetch the shell, show it, and only then ask for the page: a way to the server and a drawing more, and the
server would make the page while the browser waits instead of while it reads scripts. What is fetched is therefore
named after the page (`layout_of`; assets/early.js lets Dash ask for just that). Pages opened from there come as Dash
lets them come, by its callback on the address.
"""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import quote

import dash
import flask
from dash import dcc, html
from dash._pages import _parse_query_string, _path_to_page

_log = logging.getLogger(__name__)


def layout_of_this() -> str:
    """What the page that is being asked for has to fetch, below the address of the dashboard."""
    sent: str = flask.request.environ.get("REQUEST_URI", flask.request.path)
    return f"_dash-layout?page={quote(sent, safe='/')}"


def page_container() -> Any:
    """`dash.page_container` with the page that the request names in it; empty where it names none."""
    asked = flask.request.args.get("page", "") if flask.has_request_context() else ""
    path, _, query = asked.partition("?")
    search = f"?{query}" if query else ""
    page, title = _made(path, search) if path.startswith("/") else (None, None)
    if title is None:
        return dash.page_container
    flask.after_this_request(_not_kept)
    return html.Div(
        [
            # With these it has nothing to tell, and the page is not asked for again.
            dcc.Location(id="_pages_location", refresh="callback-nav", pathname=path, search=search),
            html.Div(page, id="_pages_content", disable_n_clicks=True),
            dcc.Store(id="_pages_store", data={"title": title}),
            html.Div(id="_pages_dummy", disable_n_clicks=True),
        ]
    )


def _not_kept(response: flask.Response) -> flask.Response:
    """A browser that goes back would show the page as it was, with what was deleted meanwhile."""
    response.headers["Cache-Control"] = "no-store"
    return response


def _made(path: str, search: str) -> tuple[Any, str | None]:
    """The page at an address and its title; no title where it fails, as the callback then tells what happened."""
    found, variables = _path_to_page(path.strip("/"))
    page, given = found or dash.page_registry["not_found_404"], variables or {}
    layout, title = page["layout"], page["title"]
    try:
        made = layout(**{**given, **_parse_query_string(search)}) if callable(layout) else layout
    except Exception:
        _log.exception("the page at %r was not made with its shell", path)
        return None, None
    return made, title(**given) if callable(title) else title
