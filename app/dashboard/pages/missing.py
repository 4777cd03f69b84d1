"""The page for addresses that lead nowhere."""

from __future__ import annotations

from typing import Any

import dash

from app.dashboard.parts import link_button, state
from app.dashboard.state import State


def register(app: dash.Dash, shared: State) -> None:  # noqa: ARG001
    dash.register_page("not_found_404", path="/404", title="Not found · HyperOffload", layout=layout)


def layout(**_: str) -> Any:
    return state("empty", "There is no such page", "The address may be old.", link_button("All runs", "/", "runs"))
