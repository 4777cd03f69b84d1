"""Versions of a policy as rows, and the difference between two of them as lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from db.policies import PolicyVersionRow, diff_texts

EDITED = "edited"
"""Stands for the policy in the editor, saved or not."""


@dataclass(frozen=True, slots=True)
class VersionRow:
    number: int
    saved: str
    summary: str
    note: str


@dataclass(frozen=True, slots=True)
class DiffLine:
    """``tone`` is added, removed or same."""

    text: str
    tone: str


def version_rows(versions: Sequence[PolicyVersionRow]) -> list[VersionRow]:
    """Newest first, as they come."""
    return [VersionRow(v.number, v.created.strftime("%Y-%m-%d %H:%M"), _summary(v), v.note) for v in versions]


def diff_lines(versions: Sequence[PolicyVersionRow], old: str, new: str, edited: str) -> list[DiffLine]:
    """Lines of the difference between two of the versions, named by number, or `EDITED` for the text ``edited``;
    whole texts, so that unchanged lines show where a change is. Empty when they are equal or one is not there."""
    texts = {str(v.number): v.toml for v in versions} | {EDITED: edited}
    if old not in texts or new not in texts:
        return []
    lines = diff_texts(texts[old], texts[new], "", "", context=1000)[3:]
    tones = {"+": "added", "-": "removed"}
    return [DiffLine(line or " ", tones.get(line[:1], "same")) for line in lines]


def _summary(version: PolicyVersionRow) -> str:
    document = version.json
    parts = [str(document.get("strategy", "hyperoffload")), str(document.get("memory_limit", "whole device"))]
    if options := document.get("options"):
        parts.append(", ".join(f"{k} = {v}" for k, v in options.items()))
    if rules := document.get("rules"):
        parts.append(f"{len(rules)} rule{'s' if len(rules) > 1 else ''}")
    return ", ".join(parts)
