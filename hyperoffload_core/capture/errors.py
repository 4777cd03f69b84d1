"""The one error of this package."""

from __future__ import annotations


class CaptureError(ValueError):
    """A model that cannot be captured; one sentence says what is wrong and where."""
