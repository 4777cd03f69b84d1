"""Names and sentences of any length, cut to what a page has room for."""

from __future__ import annotations

LONGEST_NAME = 90
LONGEST_SENTENCE = 900


def clipped(name: str, longest: int = LONGEST_NAME) -> str:
    """A name with its middle left out where it is too long: both ends tell names of one model apart."""
    if len(name) <= longest:
        return name
    end = longest // 3
    return f"{name[: longest - end - 1]}…{name[-end:]}"


def sentence(text: str) -> str:
    """A clause of the explanations as a sentence of its own."""
    cut = clipped(text, LONGEST_SENTENCE)
    return f"{cut[:1].upper()}{cut[1:]}."
