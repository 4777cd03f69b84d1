"""The one error of this package."""

from __future__ import annotations

from hyperoffload_core.errors import UserError


class CaptureError(UserError):
    """A model that cannot be captured; one sentence says what is wrong and where."""
