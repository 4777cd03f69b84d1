"""A page that cannot be made says why instead of staying blank, whatever its address holds and whatever became of the
database."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

from app.dashboard import parts
from app.dashboard.state import current_state
from db.database import DatabaseError, check_schema
from hyperoffload_core.errors import UserError


def guarded(layout: Callable[..., Any], several: Collection[str] = ()) -> Callable[..., Any]:
    """The layout, or its error as a page; anything but an error that a person can act on stays an exception.

    Of a parameter that an address repeats the first counts; those named in ``several`` are given as they are, a text or
    a list of them.
    """

    @wraps(layout)
    def shown(**query: str | list[str]) -> Any:
        given = {k: v[0] if isinstance(v, list) and k not in several else v for k, v in query.items()}
        try:
            check_schema(current_state().database)
            return layout(**given)
        except (DatabaseError, UserError) as error:
            return parts.state(
                "warning", "This page cannot be shown", str(error), parts.link_button("All runs", "/", "runs")
            )

    return shown
