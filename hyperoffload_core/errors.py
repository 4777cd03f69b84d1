"""The base of every error a person can cause and repair."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Wrong input. The message is one sentence: what was wrong, where, and what would be right.

    The command line prints the message and exits with code 2; the dashboard shows it. Everything else is a bug.
    """


def near_matches(word: str, known: Iterable[str], count: int = 5) -> list[str]:
    """The known words that look most like ``word``, best first; empty if none does."""
    by_lower = {k.lower(): k for k in known}
    return [by_lower[m] for m in difflib.get_close_matches(word.lower(), by_lower, n=count, cutoff=0.4)]
