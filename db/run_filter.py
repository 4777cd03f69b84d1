"""Which runs a list shows: exact fields, and what people type into the search field, as conditions on the run table.

What can be typed (`parse_search`): words that must all occur somewhere (``llama reactive``, ``"two words"``), and
``FIELD OPERATOR VALUE`` with the operators ``: = < <= > >=``: ``strategy:react``, ``peak<2GiB``, ``step>=1.5s``,
``tag=paper``, ``when>2026-11-01``, ``age<2d``. ``:`` means contains, ``=`` the whole value (a size or time as shown,
to three digits). A ``-`` in front turns a condition round.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Text, and_, case, cast, func, not_, or_, select

from db.models import GraphRow, Policy, PolicyVersion, Run, ScheduleRow, utc_now
from hyperoffload_core.errors import UserError
from hyperoffload_core.sizes import SizeError, parse_bytes

DEVICE_BYTES: ColumnElement[Any] = case(
    (and_(Run.kind == "predicted", Run.peak_bytes.is_not(None)), Run.reserved_bytes), else_=Run.peak_bytes
)
"""Device memory with the gaps between storages, as `db.queries.RunRow.device_bytes`."""
AS_SHOWN = 0.005
"""Numbers this part apart are equal: people type what a page shows, three digits of it."""
_POLICY_NAME = (
    select(Policy.name)
    .join(PolicyVersion, PolicyVersion.policy_id == Policy.id)
    .where(PolicyVersion.id == Run.policy_version_id)
    .scalar_subquery()
)
_TEXTS: dict[str, Any] = {
    "model": Run.model,
    "hardware": Run.hardware,
    "strategy": Run.strategy,
    "kind": Run.kind,
    "status": Run.status,
    "name": Run.label,
    "note": Run.note,
    "tag": Run.tags,
    "policy": _POLICY_NAME,
    "session": Run.session,
    "reason": Run.reason,
}
_SIZES: dict[str, Any] = {
    "limit": Run.memory_limit_bytes,
    "peak": DEVICE_BYTES,
    "out": Run.bytes_out,
    "in": Run.bytes_in,
}
_TIMES: dict[str, Any] = {
    "step": Run.step_median_ns,
    "compute": Run.compute_ns,
    "exposed": Run.exposed_ns,
    "blocking": Run.blocking_ns,
}
_COUNTS: dict[str, Any] = {"run": Run.id, "steps": Run.step_count}
FIELDS = (*_TEXTS, *_SIZES, *_TIMES, *_COUNTS, "when", "age")
_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9}
_AGES = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_TOKEN = re.compile(r'\s*(-?)(?:([A-Za-z_]+)\s*(<=|>=|<|>|=|:)\s*)?("[^"]*"?|\S+)')
_UNFINISHED = re.compile(r"([A-Za-z_]+)(?:<=|>=|<|>|=|:)")
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b,
    ":": lambda a, b: a == b,
}


class SearchError(UserError):
    """A search that cannot be understood; the message names the part."""


@dataclass(frozen=True)
class RunFilter:
    """Every given field must match; ``text`` is searched in model, label, note, strategy and conditions.

    ``archived`` None means runs of both kinds; deleted runs are found only with ``deleted``. ``search`` is what a
    person typed (`parse_search`).
    """

    kind: str | None = None
    status: str | None = None
    session: str | None = None
    model: str | None = None
    strategy: str | None = None
    hardware: str | None = None
    graph_hash: str | None = None
    schedule_hash: str | None = None
    policy: str | None = None
    tag: str | None = None
    text: str | None = None
    archived: bool | None = None
    deleted: bool = False
    search: str = ""


def run_conditions(where: RunFilter) -> list[ColumnElement[bool]]:
    """Conditions on `db.models.Run` alone (no joins). Raises `SearchError`."""
    exact: dict[Any, Any] = {
        Run.kind: where.kind,
        Run.status: where.status,
        Run.session: where.session,
        Run.model: where.model,
        Run.strategy: where.strategy,
        Run.hardware: where.hardware,
        Run.archived: where.archived,
        _POLICY_NAME: where.policy,
    }
    found = [column == value for column, value in exact.items() if value is not None]
    found.append(Run.deleted.is_not(None) if where.deleted else Run.deleted.is_(None))
    if where.graph_hash is not None:
        found.append(Run.graph_id.in_(select(GraphRow.id).where(GraphRow.hash == where.graph_hash)))
    if where.schedule_hash is not None:
        found.append(Run.schedule_id.in_(select(ScheduleRow.id).where(ScheduleRow.hash == where.schedule_hash)))
    if where.tag is not None:
        found.append(_tagged(lambda tag: tag == where.tag))
    if where.text:
        searched = (Run.model, Run.label, Run.note, Run.strategy, Run.conditions)
        found.append(or_(*(_contains(column, where.text) for column in searched)))
    return found + parse_search(where.search)


def parse_search(text: str) -> list[ColumnElement[bool]]:
    """What a person typed, as conditions that must all hold; empty for an empty text. Raises `SearchError`."""
    return [_condition(*match.groups()) for match in _TOKEN.finditer(text.replace("\x00", " ")) if match[0].strip()]


def _condition(minus: str, field: str | None, operator: str | None, quoted: str) -> ColumnElement[bool]:
    value = quoted.strip('"') if quoted.startswith('"') else quoted
    unfinished = _UNFINISHED.fullmatch(quoted) if field is None else None
    if unfinished is not None and unfinished[1].lower() in FIELDS:
        raise SearchError(f"{quoted!r} needs a value behind it")
    if field is None or operator is None:
        condition = _anywhere(value)
    elif field.lower() in _TEXTS:
        condition = _text(field.lower(), operator, value)
    elif field.lower() in FIELDS:
        condition = _number(field.lower(), operator, value)
    else:
        raise SearchError(f"{field!r} is no field of a run; fields are {', '.join(FIELDS)}")
    return not_(func.coalesce(condition, False)) if minus else condition


def _anywhere(word: str) -> ColumnElement[bool]:
    columns = (Run.model, Run.label, Run.note, Run.strategy, Run.hardware, Run.conditions, Run.status, Run.kind)
    number = [Run.id == int(word[1:])] if word[:1] == "#" and word[1:].isdecimal() and len(word) < 18 else []
    return or_(*number, *(_contains(c, word) for c in columns), _tagged(lambda tag: _contains(tag, word)))


def _text(field: str, operator: str, value: str) -> ColumnElement[bool]:
    if operator not in (":", "="):
        raise SearchError(f"{field} is a text: write {field}:{value} (contains) or {field}={value} (is)")

    def holds(column: Any) -> ColumnElement[bool]:
        return _contains(column, value) if operator == ":" else func.lower(column) == value.lower()

    return _tagged(holds) if field == "tag" else holds(_TEXTS[field])


def _number(field: str, operator: str, value: str) -> ColumnElement[bool]:
    try:
        if field in _SIZES:
            if re.fullmatch(r"[0-9.]+([eE][0-9]+)?", value):
                raise SearchError(f"{value!r} has no unit; write {field}{operator}{value}GiB, or MiB")
            return _shown(_SIZES[field], operator, parse_bytes(value))
        if field in _TIMES:
            return _shown(_TIMES[field], operator, _parse_ns(value))
        if field == "when":
            return _when(operator, value)
        if field == "age":
            # Younger means created later.
            turned = operator.translate(str.maketrans("<>", "><"))
            return _COMPARE[turned](Run.created, utc_now() - _parse_age(value))
        if not value.isdecimal() or len(value) > 18:
            raise SearchError(f"{value!r} is no number; write {field}{operator}12")
        return _COMPARE[operator](_COUNTS[field], int(value))
    except SizeError as error:
        raise SearchError(f"{field}: {error}") from error


def _shown(column: Any, operator: str, value: int) -> ColumnElement[bool]:
    if operator in "=:":
        return func.abs(column - value) <= value * AS_SHOWN
    return _COMPARE[operator](column, value)


def _when(operator: str, value: str) -> ColumnElement[bool]:
    if operator in "=:":
        return cast(Run.created, Text).startswith(value, autoescape=True)
    try:
        return _COMPARE[operator](Run.created, datetime.fromisoformat(value))
    except ValueError as error:
        raise SearchError(f"{value!r} is no date; write when{operator}2026-11-30 or 2026-11-30T14:00") from error


def _parse_ns(text: str) -> int:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s)", text)
    if match is None or float(match[1]) * _NS[match[2]] >= 2**62:
        raise SearchError(f"{text!r} is no time; write a number with a unit, such as 10ms or 1.5s")
    return round(float(match[1]) * _NS[match[2]])


def _parse_age(text: str) -> timedelta:
    match = re.fullmatch(r"([0-9]{1,5})([mhdw])", text)
    if match is None or (match[2] == "w" and int(match[1]) > 9_999):
        raise SearchError(f"{text!r} is no age; write 30m, 12h, 7d or 2w")
    return timedelta(**{_AGES[match[2]]: int(match[1])})


def _contains(column: Any, text: str) -> ColumnElement[bool]:
    return column.icontains(text, autoescape=True)


def _tagged(holds: Callable[[Any], ColumnElement[bool]]) -> ColumnElement[bool]:
    """Some tag of the run for which it holds."""
    tags = func.json_each(Run.tags).table_valued("value", name="each_tag")
    return select(tags.c.value).where(holds(tags.c.value)).exists()
