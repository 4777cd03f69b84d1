"""A part of a page that holds no component of its own: many elements that Dash takes for one.

Dash looks at every component of a page after every change of any; a table of a hundred rows is six hundred of them.
What acts in such a part does so by its ``data-`` attributes (`app.dashboard.pages.run_links`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash.development.base_component import Component

HTML = "dash_html_components"


class Frozen(Component):
    """``tree``: a text, or [name of the element, its properties, child, child, …], or a list of these in a list of one
    name "". assets/frozen.js makes it."""

    _namespace = "hyperoffload"
    _type = "Frozen"
    _children_props: Sequence[str] = ()
    _base_nodes: Sequence[str] = ()
    _prop_names = ("tree",)
    _valid_wildcard_attributes: Sequence[str] = ()
    available_properties = ("tree",)
    available_wildcard_properties: Sequence[str] = ()

    def __init__(self, tree: Any) -> None:
        super().__init__(tree=tree)


def frozen(content: Any) -> Frozen:
    """Components of `dash.html` without ids, as one. Raises TypeError for any other component."""
    return Frozen(_tree(content))


def _tree(content: Any) -> Any:
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, int | float):
        return str(content)
    if isinstance(content, list | tuple):
        return ["", {}, *(_tree(part) for part in content)]
    if isinstance(content, Frozen):
        return content.tree
    if not isinstance(content, Component) or content._namespace != HTML or hasattr(content, "id"):
        raise TypeError(f"{content!r} is not plain HTML")
    properties = content.to_plotly_json()["props"]
    children = properties.pop("children", None)
    parts = children if isinstance(children, list | tuple) else [children]
    return [content._type.lower(), properties, *(_tree(part) for part in parts if part is not None)]
