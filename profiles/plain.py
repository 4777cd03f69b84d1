"""Names of models, ops, storages and policies as text that cannot do anything: they come from other people's files.

Each export has its own way in which a text can act; what all share is that control characters and marks that turn the
direction of writing are shown instead of obeyed, and that long names are cut.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

LONGEST = 160
_ACTING = ("=", "+", "-", "@", "\t", "\r")
# What begins markup or a link anywhere, and what begins a block at the start of a line.
_MARKUP = re.compile(r"([\\`*_\[\]|~$]|:(?=//)|(?<=www)\.|@(?=\w))", re.IGNORECASE)
_BLOCK = re.compile(r"^(\s*)([#+=-]|\d+[.)])")
_RIGHT_TO_LEFT = ("R", "AL", "AN")


def visible(text: str, longest: int | None = LONGEST) -> str:
    """The text with every control, format and line character as ``\\N{REPLACEMENT CHARACTER}``, cut in the middle."""
    if longest is not None and len(text) > longest:
        # Names differ at their ends more than in the middle.
        text = f"{text[: longest // 2]}…{text[-(longest // 2 - 1) :]}"
    if text.isascii() and text.isprintable():
        return text
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c)[0] in "CZ" and c != " " else c for c in text)


def html_text(text: str, longest: int | None = LONGEST) -> str:
    """The text inside an HTML or SVG element or attribute."""
    return escape(visible(text, longest), quote=True)


def markdown_text(text: str, longest: int | None = LONGEST) -> str:
    """The text inside a paragraph or a table cell of Markdown: no markup, no HTML, no link, one line.

    A name written from right to left is isolated, so that the cells after it keep their places.
    """
    shown = visible(text, longest)
    marked = _MARKUP.sub(r"\\\1", shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"))
    marked = _BLOCK.sub(lambda m: f"{m[1]}{m[2][:-1]}\\{m[2][-1]}", marked)
    if any(unicodedata.bidirectional(c) in _RIGHT_TO_LEFT for c in shown):
        return f"\N{FIRST STRONG ISOLATE}{marked}\N{POP DIRECTIONAL ISOLATE}"
    return marked


def csv_text(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula: one that begins like one gets an apostrophe.

    Nothing is cut: a CSV file holds all there is.
    """
    shown = visible(text, None)
    return f"'{shown}" if text.startswith(_ACTING) else shown


def csv_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A CSV file: a line of headings, then the rows as they are given (text through `csv_text`)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()
