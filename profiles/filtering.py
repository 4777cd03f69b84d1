"""The filter language of searches: ``class:weight size>4MiB blocking>1ms name:*attention* in:transfers``.

Terms are separated by spaces and all have to hold. A field with ``:`` (or ``=``) takes one value or several with commas
between them, quantities take ``>``, ``>=``, ``<``, ``<=`` as well, ``-`` in front of a term means not, and words
without a field are parts of names. Quotes keep spaces, commas and signs together. Here is only the language; what it
finds in a step is `profiles.searching`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from hyperoffload_core.errors import UserError, near_matches
from hyperoffload_core.explain.verdicts import Cause
from hyperoffload_core.ir import PHASES, TENSOR_CLASSES
from hyperoffload_core.sizes import SizeError, parse_bytes

Kind = Literal["op", "storage", "transfer"]
Sort = Literal["word", "exact", "choice", "size", "time"]
Relation = Literal["=", ">", ">=", "<", "<="]

KINDS: tuple[Kind, ...] = get_args(Kind)
PLURALS: dict[Kind, str] = {"op": "ops", "storage": "storages", "transfer": "transfers"}
LONGEST = 1_000
PEAK = -1
"""The value of ``at:peak``."""
_EVERY: tuple[Kind, ...] = KINDS
_MOVED: tuple[Kind, ...] = ("storage", "transfer")
_UNITS_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class FilterError(UserError):
    """A search that cannot be understood; the message is one sentence with what would be right."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the language. ``of``: what has it. ``word`` matches parts, ``exact`` whole words, both in any case and
    with ``*`` and ``?``; ``choice`` is one of ``choices``."""

    name: str
    of: tuple[Kind, ...]
    sort: Sort
    meaning: str
    example: str
    choices: tuple[str, ...] = ()


_FIELDS = (
    Field("in", _EVERY, "choice", "what is searched", "in:transfers", tuple(PLURALS.values())),
    Field("name", _EVERY, "word", "a part of the name, or a pattern", "name:*attention*"),
    Field("class", _MOVED, "choice", "tensor class", "class:weight,gradient", TENSOR_CLASSES),
    Field("size", _MOVED, "size", "bytes of the storage, or bytes moved", "size>4MiB"),
    Field("phase", _EVERY, "choice", "where it runs or is used", "phase:backward", PHASES),
    Field("layer", _EVERY, "exact", "layer, or its number", "layer:3"),
    Field("op", ("op",), "exact", "kind of op", "op:MatMul*"),
    Field("scope", ("op",), "word", "a part of the scope", "scope:attention"),
    Field("duration", ("op", "transfer"), "time", "how long it takes", "duration>2ms"),
    Field("blocking", _EVERY, "time", "time by which it delays compute, or for which an op waits", "blocking>1ms"),
    Field("exposed", _MOVED, "time", "transfer time with no compute beside it", "exposed>0"),
    Field("hidden", _MOVED, "time", "transfer time beside compute", "hidden>1ms"),
    Field("slack", ("transfer",), "time", "how much later it could have ended", "slack<100us"),
    Field("way", ("transfer",), "choice", "in is to the device, out is to the pool", "way:in", ("in", "out")),
    Field("cause", ("transfer",), "choice", "what decided its start", "cause:link", get_args(Cause)),
    Field(
        "is",
        ("op", "storage"),
        "choice",
        "leaves the device, stays all the time, outlives the step, is computed again",
        "is:moved",
        ("moved", "resident", "persistent", "recomputed"),
    ),
    Field("start", _EVERY, "time", "when it starts, or comes to the device", "start<20ms"),
    Field("end", _EVERY, "time", "when it ends, or leaves the device at last", "end>1s"),
    Field("at", _EVERY, "time", "running, or on the device, at a time or at the peak", "at:peak"),
)
FIELDS: dict[str, Field] = {field.name: field for field in _FIELDS}
ALIASES = {"bytes": "size", "primitive": "op", "direction": "way", "type": "class", "kind": "in"}
EXAMPLES = ("class:weight size>4MiB", "blocking>1ms in:transfers", "layer:3 phase:backward", "at:peak is:moved")


@dataclass(frozen=True, slots=True)
class Term:
    """``values`` are alternatives: text for words and choices (lower case), an int (bytes or ns) for quantities."""

    field: str
    relation: Relation
    values: tuple[str | int, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Terms that all have to hold, and the kinds of things that can meet them."""

    terms: tuple[Term, ...]
    kinds: tuple[Kind, ...]


def parse_query(text: str) -> Query:
    """What a person typed, understood. No terms at all: everything. Raises `FilterError`."""
    if len(text) > LONGEST:
        raise FilterError(f"a search has at most {LONGEST:,} characters, this one has {len(text):,}")
    terms = tuple(_terms(text))
    kinds = [kind for kind in KINDS if all(_has(kind, term) for term in terms)]
    if not kinds:
        raise FilterError(_nothing_has(terms))
    return Query(terms, tuple(kinds))


def quoted(word: str) -> str:
    """A word as it has to be typed to be found as it is; its own quotes are left open."""
    return '"' + word.replace('"', "?") + '"'


def pattern(word: str) -> re.Pattern[str]:
    """A word as it has to match a whole text, in any case; ``*`` stands for anything, ``?`` for one character."""
    first, *others = ("".join("." if c == "?" else re.escape(c) for c in part) for part in re.split(r"\*+", word))
    # What stands between two stars is taken where it is found first, for good: no pattern takes long.
    middle = "".join(f"(?>.*?{part})" for part in others[:-1])
    return re.compile(first + middle + "".join(f".*{part}" for part in others[-1:]), re.IGNORECASE | re.DOTALL)


def _terms(text: str) -> Iterator[Term]:
    spaced = _AROUND.sub(lambda m: m[0] if m[0].startswith('"') else m[0].strip(), text)
    joined = _UNIT.sub(lambda m: m[0] if m[0].startswith('"') else m[1] + m[2], spaced)
    if joined.count('"') % 2:
        raise FilterError(f"{_short(joined[joined.rindex(_QUOTE) :])} has no closing quote")
    for chunk in _CHUNK.findall(joined):
        negated = len(chunk) > 1 and chunk[0] == "-"
        term = chunk[1:] if negated else chunk
        if match := _TERM.fullmatch(term):
            yield _term(_field(match[1], term), match[2], match[3], negated, term)
        else:
            yield Term("name", "=", (_bare(term).lower(),), negated)


_QUOTE = '"'
# What stands in quotes is passed over.
_AROUND = re.compile(r'"[^"]*"|\s*(?:>=|<=|=|>|<)\s*|:\s+')
_UNIT = re.compile(r'"[^"]*"|([<>=][0-9]+(?:\.[0-9]*)?)\s+([KMGTP]?i?B|ns|us|µs|ms|s)(?=\s|$)', re.IGNORECASE)
_CHUNK = re.compile(r'(?:"[^"]*"|[^\s"])+')
_COMMA = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')
_TERM = re.compile(r"([A-Za-z_]+)(:?(?:>=|<=|=|>|<)|:)(.*)", re.DOTALL)


def _field(word: str, term: str) -> Field:
    name = ALIASES.get(word.lower(), word.lower())
    if name in FIELDS:
        return FIELDS[name]
    near = near_matches(name, [*FIELDS, *ALIASES], 2)
    meant = f"near matches: {', '.join(near)}" if near else f"fields are {', '.join(FIELDS)}"
    raise FilterError(f"there is no field {_short(word)}; {meant}; to find names with {_short(term)}, put it in quotes")


def _term(field: Field, relation: str, text: str, negated: bool, term: str) -> Term:
    sign: Relation = "="
    for known in get_args(Relation):
        if relation.lstrip(":") == known:
            sign = known
    if not _bare(text):
        raise FilterError(f"{_short(term)} needs a value, such as {field.example}")
    if field.sort in ("size", "time"):
        return Term(field.name, sign, (_quantity(field, _bare(text), term),), negated)
    if sign != "=":
        raise FilterError(f"{field.name} is no quantity, so {_short(term)} means nothing; write {field.example}")
    words = [_bare(w) for w in _COMMA.split(text)]
    if not all(words):
        raise FilterError(
            f"{_short(term)} lacks a value beside its comma; write them without spaces, as {field.example}"
        )
    values = tuple(_choice(field, w) if field.sort == "choice" else w.lower() for w in words)
    return Term(field.name, sign, values, negated)


def _choice(field: Field, word: str) -> str:
    """The choice that was meant, in any case, singular or plural."""
    plain = word.lower().replace("-", "_")
    for choice in field.choices:
        if plain.rstrip("s") == choice.rstrip("s"):
            return choice
    raise FilterError(f"{field.name}:{_short(word)} is not known; write one of {', '.join(field.choices)}")


def _quantity(field: Field, text: str, term: str) -> int:
    """Bytes or ns; only 0 needs no unit."""
    if field.name == "at" and text.lower() == "peak":
        return PEAK
    if re.fullmatch(r"0+(?:\.0*)?", text):
        return 0
    if field.sort == "size":
        if not text[-1:].isalpha():
            # Bytes, for `parse_bytes`; who leaves the unit away means the one that pages show.
            raise FilterError(f"{_short(term)}: a size has a number and a unit, such as {field.example}")
        try:
            return parse_bytes(text)
        except SizeError as error:
            raise FilterError(f"{_short(term)}: {error}") from error
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s)", text, re.IGNORECASE)
    value = round(float(match[1]) * _UNITS_NS[match[2].lower()]) if match else -1
    if not 0 <= value < 2**62:
        raise FilterError(f"{_short(term)}: a time has a number and ns, us, ms or s, such as {field.example}")
    return value


def _has(kind: Kind, term: Term) -> bool:
    """Whether things of a kind can meet a term."""
    if term.field == "in":
        return (PLURALS[kind] in term.values) != term.negated
    return kind in FIELDS[term.field].of


def _nothing_has(terms: tuple[Term, ...]) -> str:
    asked = [term.field for term in terms if term.field != "in"]
    for name in asked:
        of = " and ".join(PLURALS[kind] for kind in FIELDS[name].of)
        if not any(all(_has(kind, t) for t in terms if t.field == "in") for kind in FIELDS[name].of):
            return f"only {of} have {name}, which in: leaves out"
    return f"nothing has all of {', '.join(dict.fromkeys(asked))}" if asked else "in: leaves out everything"


def _bare(text: str) -> str:
    return text.replace('"', "")


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
