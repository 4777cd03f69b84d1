"""The page that a browser opens first comes with the shell, the same that Dash's own callback on the address makes."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import dash
import pytest
from callbacks import call

HEADERS = {"Host": "127.0.0.1"}


def opened(example_app: dash.Dash, address: str) -> dict[str, Any]:
    """Properties by id of the layout that a browser fetches which opens an address."""
    client = example_app.server.test_client()
    page = client.get(address, headers=HEADERS).get_data(as_text=True)
    layout = re.search(r'<link rel="preload" as="fetch" href="([^"]*_dash-layout[^"]*)"', page)
    assert layout is not None
    found: dict[str, Any] = {}

    def look(part: Any) -> None:
        for below in part if isinstance(part, list) else part.values() if isinstance(part, dict) else ():
            look(below)
        if isinstance(part, dict) and isinstance(part.get("id"), str):
            found[part["id"]] = part

    look(client.get(html.unescape(layout[1]), headers=HEADERS).get_json())
    return found


@pytest.mark.parametrize(
    ("path", "search"),
    [
        ("/", "?q=step%3C1s&sort=-step_ns"),
        ("/run/1", ""),
        ("/run/1", "?step=all&by=tier"),
        ("/run/%3Cb%3E", "?q=%22%26%23%2B+%C3%A9"),
        ("/sql", "?q=" + "select+1%3B" * 900),
        ("/nowhere", ""),
    ],
)
def test_what_the_shell_brings_is_what_the_address_asks_for(example_app: dash.Dash, path: str, search: str) -> None:
    brought = opened(example_app, path + search)
    values = {"_pages_location.pathname": path, "_pages_location.search": search}
    asked = call(example_app, "_pages_location.pathname", values, "_pages_content")
    assert brought["_pages_content"]["children"] == asked["_pages_content.children"]
    assert brought["_pages_store"]["data"] == asked["_pages_store.data"]
    # Else the browser would ask for it again.
    assert (brought["_pages_location"]["pathname"], brought["_pages_location"]["search"]) == (path, search)


def test_a_page_that_fails_is_left_to_the_callback_which_tells_why(
    example_app: dash.Dash, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(**_: str) -> Any:
        raise RuntimeError("a fault")

    monkeypatch.setitem(dash.page_registry["app.dashboard.pages.sql"], "layout", broken)
    brought = opened(example_app, "/sql")
    assert brought["_pages_content"].get("children") is None and "pathname" not in brought["_pages_location"]
    assert "a fault" in caplog.text


def test_a_page_that_came_with_its_shell_is_not_kept_by_the_browser(example_app: dash.Dash) -> None:
    client = example_app.server.test_client()
    assert client.get("/_dash-layout?page=/", headers=HEADERS).headers["Cache-Control"] == "no-store"


def test_the_shell_without_a_page_is_what_other_clients_get(example_app: dash.Dash) -> None:
    shell = example_app.server.test_client().get("/_dash-layout", headers=HEADERS).get_json()
    assert "runs-grid" not in json.dumps(shell)


def test_what_runs_first_brings_no_polyfills_but_what_the_components_need(example_app: dash.Dash) -> None:
    client = example_app.server.test_client()
    first = re.search(r'<script src="([^"]+base\.js)"', client.get("/", headers=HEADERS).get_data(as_text=True))
    assert first is not None
    script = client.get(first[1], headers=HEADERS).get_data(as_text=True)
    assert "globalThis.regeneratorRuntime = runtime" in script and "react-dom" in script
    assert "_babelPolyfill" not in script
