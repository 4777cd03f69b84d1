"""Makes the Dash application and serves it. The process never imports mindspore and runs nothing it is given: models
are captured and run by jobs in interpreters of their own (`app.jobs`)."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dash
import dash_mantine_components as dmc
import flask
import waitress
from dash import ALL, Input, Output, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.icons import icon, logo
from app.dashboard.opening import page_container
from app.dashboard.pages import PAGES, run, runs
from app.dashboard.scripts import Dashboard
from app.dashboard.sent import unsent
from app.dashboard.state import State, current_state
from app.dashboard.theme import MANTINE_THEME
from app.dashboard.views.clipping import LONGEST_SENTENCE, clipped
from db.database import READ_ONLY_REMEDY, DatabaseError, check_schema
from db.queries import list_runs
from hyperoffload_core.errors import UserError

# What a page sends is a policy, a query, a selection: the largest text field is bounded far below this.
LARGEST_REQUEST_BYTES = 16 << 20
# So often a page asks whether its database is still there.
LOOK_MS = 10_000
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
    app = Dashboard(
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
    app.server.config["MAX_CONTENT_LENGTH"] = LARGEST_REQUEST_BYTES
    _only_this_machine(app.server, host)
    _only_what_pages_send(app)
    for page in PAGES:
        page.register(app, state)
    app.layout = lambda: _shell(state)
    app.clientside_callback(
        "(path, links) => links.map(({ nav }) => (nav === path ? 'here' : ''))",
        Output({"nav": ALL}, "className"),
        Input("address", "pathname"),
        Given({"nav": ALL}, "id"),
    )

    @app.callback(Output("database-told", "children"), Input("database-look", "n_intervals"), prevent_initial_call=True)
    def look(_: int | None) -> Any:
        """What a page shows goes on living in memory when the database is taken away under it."""
        try:
            check_schema(state.database)
        except DatabaseError as error:
            return parts.notice("bad", str(error), "alert")
        return dash.no_update

    return app


def serve(database_path: Path | str, host: str = "127.0.0.1", port: int = 8050) -> None:
    """Serve until interrupted: one process, eight threads."""
    app = create_app(database_path, host)
    # A first request sets up all of Dash.
    for first in ("/", "/_dash-layout", "/_dash-dependencies"):
        app.server.test_client().get(first, headers={"Host": "127.0.0.1"})
    threading.Thread(target=_foresee, args=(app,), name="foresee", daemon=True).start()
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    size = LARGEST_REQUEST_BYTES
    waitress.serve(app.server, host=host, port=port, threads=8, ident=None, max_request_body_size=size)


def _foresee(app: dash.Dash) -> None:
    """Make the pages that are asked for first: what they import and read is in memory when a browser comes."""
    with app.server.app_context(), suppress(DatabaseError, UserError):
        runs.layout()
        for newest in list_runs(current_state().database, limit=1):
            run.layout(run_id=str(newest.id))


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
            dcc.Interval(id="database-look", interval=LOOK_MS),
            dmc.NotificationContainer(id="notifications", position="bottom-right"),
            dmc.AppShell(
                [
                    dmc.AppShellHeader(header),
                    dmc.AppShellMain(
                        html.Div(
                            [html.Div(_read_only(state), id="database-told"), page_container()],
                            id="page",
                            className="page",
                            tabIndex=-1,
                        )
                    ),
                ],
                header={"height": 56},
                padding=0,
            ),
        ],
        theme=MANTINE_THEME,
        defaultColorScheme="auto",
    )


def _read_only(state: State) -> Any:
    if not state.database.read_only:
        return None
    words = "This database cannot be written here, so nothing can be saved: no new runs, tags, notes or versions; "
    return parts.notice("warn", words + READ_ONLY_REMEDY + ".")


def _show_error(error: Exception) -> None:
    """An error a person can repair is shown as its sentence; anything else is a bug and goes to the log as well."""
    if isinstance(error, UserError | DatabaseError):
        message = clipped(str(error), LONGEST_SENTENCE)
    elif isinstance(error, UnicodeEncodeError):
        message = "A text that was given holds half a character (a lone surrogate), which cannot be kept or looked up."
    elif made_up := unsent([*dash.ctx.inputs_list, *dash.ctx.states_list]):
        message = f"No page of this dashboard sends this: {', '.join(made_up)} cannot be read."
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
        origin = flask.request.headers.get("Origin")
        try:
            named, came_from = urlsplit(f"//{flask.request.host}"), urlsplit(origin or "")
        except ValueError:
            flask.abort(400, "The Host or the Origin of this request is no address.")
        if host in ("0.0.0.0", "::"):
            same = origin is None or came_from.netloc == flask.request.host
        else:
            same = named.hostname in allowed and (origin is None or came_from.hostname in allowed)
        if not same:
            flask.abort(403, "This dashboard answers pages of its own address only.")


def _only_what_pages_send(app: dash.Dash) -> None:
    """Say 400 or 404 to requests that no page of this dashboard makes; Dash would fail with 500 and a traceback."""

    @app.server.before_request
    def check() -> None:
        if flask.request.path != "/_dash-update-component":
            return
        try:
            asked = flask.request.get_json(silent=True)
        except RecursionError:
            asked = None
        # What runs in the browser is in the map, too, but cannot be asked for.
        if "callback" not in app.callback_map.get(_called(asked), {}):
            flask.abort(400, "No page of this dashboard sends this.")

    @app.server.errorhandler(dash.exceptions.DependencyException)
    def missing(_: Exception) -> tuple[str, int]:
        return "There is no such file.", 404


def _called(asked: Any) -> str:
    """The name of the callback that a request's document calls, empty when it has not the shape of a call."""
    if not isinstance(asked, dict) or not isinstance(asked.get("outputs"), dict | list):
        return ""
    lists = (asked.get("inputs"), asked.get("state", []), asked.get("changedPropIds", []))
    return str(asked.get("output")) if all(isinstance(given, list) for given in lists) else ""
