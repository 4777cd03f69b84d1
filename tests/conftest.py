"""Fixtures that several test modules use."""

from browsing import browser, page, recorded, served

__all__ = ["browser", "page", "recorded", "served"]
