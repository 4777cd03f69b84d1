"""Fixtures that several test modules use."""

from browsing import browser, page, recorded, served
from example_app import example_app
from plugin_ops import built_plugin, in_graph_mode, open_steps, plugin_kernels

__all__ = [
    "browser",
    "built_plugin",
    "example_app",
    "in_graph_mode",
    "open_steps",
    "page",
    "plugin_kernels",
    "recorded",
    "served",
]
