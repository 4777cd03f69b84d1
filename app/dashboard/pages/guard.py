"""A page that cannot be made says why instead of staying blank."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from app.dashboard import parts
from db.database import DatabaseError
from hyperoffload_core.errors import UserError


def guarded(layout: Callable[..., Any]) -> Callable[..., Any]:
    """The layout, or its error as a page; anything but an error that a person can act on stays an exception."""

    @wraps(layout)
    def shown(**query: str) -> Any:
        try:
            return layout(**query)
        except (DatabaseError, UserError) as error:
            return parts.state(
                "warning", "This page cannot be shown", str(error), parts.link_button("All runs", "/", "runs")
            )

    return shown
