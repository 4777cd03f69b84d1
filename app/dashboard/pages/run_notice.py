"""What every page of one run says of its state, and how the browser's tab is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from app.dashboard import parts
from app.dashboard.state import current_state
from app.dashboard.views.address import run_number
from app.dashboard.views.clipping import LONGEST_SENTENCE, clipped
from app.dashboard.views.runs import run_name
from db.database import DatabaseError
from db.queries import RunRow, get_run
from hyperoffload_core.errors import UserError


def run_notice(run: RunRow) -> Any:
    """A run that is being recorded, or was not recorded to its end, says so; None for a complete one."""
    # Others write reasons too; some end their sentence themselves.
    reason = clipped(run.reason.rstrip(" ."), LONGEST_SENTENCE) or "no reason was recorded"
    if run.status == "incomplete":
        return parts.notice("warn", f"This run is incomplete: {reason}. What it recorded before is shown.", "alert")
    if run.status == "failed":
        return parts.notice("bad", f"This run failed: {reason}.", "alert")
    if run.status == "cancelled":
        told = reason.removeprefix("cancelled") if reason.startswith("cancelled ") else f": {reason}"
        return parts.notice("warn", f"This run was cancelled{told}.")
    if run.status == "running":
        return parts.notice("info", "This run is being recorded; reload the page for the steps recorded meanwhile.")
    return None


def run_title(page: str) -> Callable[..., str]:
    """The title of a run's page, so that several tabs can be told apart; ``page`` comes before the run's name."""

    def title(run_id: str = "", **_: str) -> str:
        try:
            name = clipped(run_name(get_run(current_state().database, run_number(run_id))))
        except (DatabaseError, UserError):
            return f"{page} · HyperOffload"
        return f"{page} {name} · HyperOffload"

    return title
