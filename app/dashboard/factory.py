"""Makes the Dash application and serves it. The process never imports mindspore and runs nothing it is given: models
are captured and run by jobs in interpreters of their own (`app.jobs`)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dash
import dash_mantine_components as dmc
import flask
import waitress
from dash import ALL, Input, Output, dcc, html

from app.dashboard.icons import icon, logo
from app.dashboard.pages import PAGES
from app.dashboard.state import State
from app.dashboard.theme import MANTINE_THEME
from db.database import DatabaseError
from hyperoffload_core.errors import UserError

LOCAL_NAMES = {"127.0.0.1", "localhost", "::1"}
NAVIGATION = (
    ("/", "Runs", "runs"),
    ("/new", "New", "plus"),
    ("/compare", "Compare", "compare"),
    ("/experiments", "Experiments", "experiments"),
    ("/sql", "SQL", "sql"),
)
_log = logging.getLogger(__name__)


def create_app(database_path: Path | str, host: str = "127.0.0.1") -> dash.Dash:
    """The dashboard over one database file (made, or brought to the newest schema, when needed)."""
    dmc.pre_render_color_scheme()
    app = dash.Dash(
        __name__,
        title="HyperOffload",
        update_title=None,
        use_pages=True,
        pages_folder="",
        serve_locally=True,
        suppress_callback_exceptions=True,
        on_error=_show_error,
    )
    state = State(Path(database_path))
    app.server.config["HYPEROFFLOAD"] = state
    _only_this_machine(app.server, host)
    for page in PAGES:
        page.register(app, state)
    app.layout = lambda: _shell(state)
    app.callback(Output({"nav": ALL}, "className"), Input("address", "pathname"))(_mark_page)
    return app


def serve(database_path: Path | str, host: str = "127.0.0.1", port: int = 8050) -> None:
    """Serve until interrupted: one process, eight threads."""
    app = create_app(database_path, host)
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    waitress.serve(app.server, host=host, port=port, threads=8, ident=None)


def _shell(state: State) -> Any:
    header = dmc.Group(
        [
            dmc.Group(
                [
                    dcc.Link([logo(), "HyperOffload"], href="/", className="brand"),
                    html.Nav(
                        [
                            dcc.Link([icon(shape), title], href=href, id={"nav": href})
                            for href, title, shape in NAVIGATION
                        ],
                        className="nav",
                        **{"aria-label": "Pages"},
                    ),
                ],
                gap="lg",
            ),
            dmc.Group(
                [
                    html.Span(str(state.path), className="where", title=f"Database {state.path}"),
                    html.Button(
                        "?",
                        id="keys-help",
                        className="keys-button",
                        type="button",
                        title="Keys (?)",
                        **{"aria-label": "Keys"},
                    ),
                    dmc.ColorSchemeToggle(
                        lightIcon=icon("sun", 18),
                        darkIcon=icon("moon", 18),
                        variant="subtle",
                        color="gray",
                        size="lg",
                        **{"aria-label": "Switch between light and dark"},
                    ),
                ],
                gap="sm",
            ),
        ],
        justify="space-between",
        h="100%",
        px="lg",
    )
    return dmc.MantineProvider(
        [
            html.A("Skip to the page", href="#page", className="skip"),
            dcc.Location(id="address", refresh="callback-nav"),
            dmc.NotificationContainer(id="notifications", position="bottom-right"),
            dmc.AppShell(
                [
                    dmc.AppShellHeader(header),
                    dmc.AppShellMain(html.Div(dash.page_container, id="page", className="page", tabIndex=-1)),
                ],
                header={"height": 56},
                padding=0,
            ),
        ],
        theme=MANTINE_THEME,
        defaultColorScheme="auto",
    )


def _mark_page(path: str | None) -> list[str]:
    return ["here" if path == href else "" for href, _, _ in NAVIGATION]


def _show_error(error: Exception) -> None:
    """An error a person can repair is shown as its sentence; anything else is a bug and goes to the log as well."""
    if isinstance(error, UserError | DatabaseError):
        message = str(error)
    else:
        _log.exception("callback failed", exc_info=error)
        message = f"A fault of the dashboard ({type(error).__name__}); the log of `hyperoffload serve` says more."
    dash.set_props(
        "notifications",
        {"sendNotifications": [{"action": "show", "title": "Not done", "message": message, "color": "red"}]},
    )


def _only_this_machine(server: flask.Flask, host: str) -> None:
    """Refuse requests another site's page makes in the user's browser: a job captures a file of the user's choice."""
    allowed = LOCAL_NAMES | {host}

    @server.before_request
    def check() -> None:
        named = urlsplit(f"//{flask.request.host}").hostname
        origin = flask.request.headers.get("Origin")
        if host in ("0.0.0.0", "::"):
            same = origin is None or urlsplit(origin).netloc == flask.request.host
        else:
            same = named in allowed and (origin is None or urlsplit(origin).hostname in allowed)
        if not same:
            flask.abort(403, "This dashboard answers pages of its own address only.")
