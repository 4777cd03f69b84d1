"""Fixtures that several test modules use."""

from browsing import browser, page, recorded, served
from plugin_ops import open_steps, plugin_kernels

__all__ = ["browser", "open_steps", "page", "plugin_kernels", "recorded", "served"]
