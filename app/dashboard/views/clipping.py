"""Names and sentences of any length, cut to what a page has room for; what turns the direction of writing is shown
instead of obeyed, so that a name cannot change what stands beside it."""

from __future__ import annotations

import re

from profiles.plain import visible

LONGEST_NAME = 90
# A cell of a table ends in an ellipsis where its column does; this is what pointing at it shows.
LONGEST_IN_CELL = 300
LONGEST_SENTENCE = 900
_LONG_WORD = re.compile(rf"\S{{{LONGEST_NAME + 1},}}")


def clipped(name: str, longest: int = LONGEST_NAME) -> str:
    """A name with its middle left out where it is too long: both ends tell names of one model apart."""
    if len(name) > longest:
        end = longest // 3
        name = f"{name[: longest - end - 1]}…{name[-end:]}"
    return visible(name, None)


def sentence(text: str) -> str:
    """A clause of the explanations as a sentence of its own."""
    # A long name loses its own middle first: what the sentence says of it stands around it.
    named = _LONG_WORD.sub(lambda word: clipped(word[0]), text)
    cut = clipped(named, LONGEST_SENTENCE)
    return f"{cut[:1].upper()}{cut[1:]}."
