"""Buttons of the run page that lead somewhere on it: to details, to a place on the axis, to a search, to an answer.

What they do is in their ``data-`` attributes and done by assets/explaining.js without a callback, so that a page may
have as many of them as it likes.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from dash import dcc, html

from app.dashboard.views.clipping import clipped

LONGEST_TEXT = 240


def lead(
    text: Any,
    pick: tuple[str, int] | None = None,
    target: tuple[int, int] | None = None,
    at: int | None = None,
    find: str | None = None,
    title: str | None = None,
) -> html.Button:
    """Shows details of ``pick`` (kind, id), the window ``target`` (ns), the time ``at`` (ns), what ``find`` finds."""
    does: dict[str, Any] = {}
    if pick is not None:
        does["data-pick"] = f"{pick[0]}:{pick[1]}"
    if target is not None:
        does["data-target"] = f"{target[0]}-{target[1]}"
    if at is not None:
        does["data-at"] = str(at)
    if find is not None:
        does["data-find"] = find
    # Names in it are cut where it is made; cut here, what is said of them would lose its numbers.
    shown = clipped(text, LONGEST_TEXT) if isinstance(text, str) else text
    title = title or (clipped(text, 500) if isinstance(text, str) and shown != text else None)
    return html.Button(shown, className="link", type="button", title=title, **does)


def ask(text: str, question: str, pick: tuple[str, int] | None, variant: str = "ask") -> html.Button:
    """Asks a what-if question; the answer appears in the details of ``pick``."""
    about = {"data-pick": f"{pick[0]}:{pick[1]}"} if pick is not None else {}
    asked = clipped(question, 500)
    does = {"data-ask": question, "aria-label": f"{text}: {asked}", **about}
    return html.Button(text, className=variant, type="button", title=asked, **does)


def tune_link(text: str, run_id: int, action: str, name: str) -> Any:
    """Leads to the policy editor with a rule for one storage: ``action`` is keep or offload."""
    return dcc.Link(text, href=f"/tune/{run_id}?{action}={quote(name, safe='')}", className="ask")
