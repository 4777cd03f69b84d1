"""What a person edits: memory limit, strategy with options, rules. Read and written as TOML or JSON."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from hyperoffload_core.errors import UserError
from hyperoffload_core.ir import PHASES, TENSOR_CLASSES, Phase, TensorClass
from hyperoffload_core.sizes import parse_bytes, parse_ns, parse_percent

Action = Literal["keep", "offload", "auto"]
OptionValue = bool | int | float | str


class PolicyError(UserError):
    """A policy that cannot be used; the message names the line or field and what would be right."""


class Rule(BaseModel):
    """Which storages (every condition given must hold) and what to do with them.

    ``keep`` holds a storage on the device for the whole step, ``offload`` moves it in every reuse gap where that can
    save memory, ``auto`` leaves the decision to the strategy. Sizes include their bounds. ``prefetch_earlier``
    (``2ms``) starts each Prefetch of the storages that the rule decides about so much earlier than the strategy planned
    it, as far as order, memory and addresses allow (`hyperoffload_core.sooner`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    tensor_class: TensorClass | None = Field(default=None, validation_alias="class", serialization_alias="class")
    scope: str | None = None
    name: str | None = None
    min_size: str | None = None
    max_size: str | None = None
    phase: Phase | None = None
    action: Action
    prefetch_earlier: str | None = None

    @field_validator("min_size", "max_size")
    @classmethod
    def _size(cls, value: str | None) -> str | None:
        if value is not None:
            parse_bytes(value)
        return value

    @field_validator("prefetch_earlier")
    @classmethod
    def _time(cls, value: str | None) -> str | None:
        if value is not None:
            parse_ns(value)
        return value

    @model_validator(mode="after")
    def _keeps_or_prefetches(self) -> Rule:
        if self.action == "keep" and self.prefetch_earlier is not None:
            raise ValueError("what is kept on the device has no Prefetch that prefetch_earlier could move")
        return self

    @model_validator(mode="after")
    def _has_a_condition(self) -> Rule:
        given = (self.tensor_class, self.scope, self.name, self.min_size, self.max_size, self.phase)
        if all(condition is None for condition in given):
            raise ValueError("a rule needs a condition: class, scope, name, min_size, max_size or phase")
        return self

    @property
    def text(self) -> str:
        """The rule in one line, as messages quote it."""
        conditions = self.model_dump(by_alias=True, exclude_none=True, exclude={"action", "prefetch_earlier"})
        earlier = f", prefetch {self.prefetch_earlier} earlier" if self.prefetch_earlier else ""
        return ", ".join(f"{k} = {v!r}" for k, v in conditions.items()) + f": {self.action}{earlier}"


class Policy(BaseModel):
    """``memory_limit`` is a size, a percentage of the no-offload live peak, or None for the whole device.

    The first rule that matches a storage decides; storages that no rule matches are ``auto``. ``options`` belong to
    the strategy and are checked by it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "unnamed"
    memory_limit: str | None = None
    strategy: str = "hyperoffload"
    options: dict[str, OptionValue] = Field(default_factory=dict)
    rules: tuple[Rule, ...] = ()

    @field_validator("memory_limit")
    @classmethod
    def _limit(cls, value: str | None) -> str | None:
        if value is None or value.strip().lower() in ("none", ""):
            return None
        if parse_percent(value) is None:
            parse_bytes(value)
        return value.strip()

    def limit_bytes(self, live_peak_bytes: int, device_bytes: int) -> int:
        """The limit in bytes, at least 1; ``live_peak_bytes`` is the no-offload live peak of the graph in captured
        order."""
        if self.memory_limit is None:
            return device_bytes
        return max(1, parse_bytes(self.memory_limit, live_peak_bytes))


def policy_from_document(document: Any, where: str = "policy") -> Policy:
    """The policy a TOML or JSON document describes. Raises `PolicyError` naming the field."""
    try:
        return Policy.model_validate(document)
    except ValidationError as error:
        raise PolicyError(f"{where}: {_first_fault(error)}") from error


def policy_from_toml(text: str, where: str = "policy") -> Policy:
    """Raises `PolicyError` naming the line (not TOML) or the field with its line (not a policy)."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"{where}: not TOML: {_unread(error)}") from error
    try:
        return Policy.model_validate(document)
    except ValidationError as error:
        line = _line_of(text, error.errors()[0]["loc"])
        raise PolicyError(f"{where}{f', line {line}' if line else ''}: {_first_fault(error)}") from error


def policy_from_json(text: str, where: str = "policy") -> Policy:
    """Raises `PolicyError` naming the line (not JSON) or the field (not a policy)."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"{where}: not JSON: {_unread(error)}") from error
    return policy_from_document(document, where)


def _unread(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    read = isinstance(error, tomllib.TOMLDecodeError | json.JSONDecodeError)
    # Python itself refuses to read numbers of more than 4,300 digits.
    return str(error) if read else "it holds a number of thousands of digits"


def read_policy(path: Path) -> Policy:
    """Read a ``.toml`` or ``.json`` file; the policy takes the file's name where it gives none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(f"policy {path}: the file cannot be read ({error})") from error
    if path.suffix not in (".toml", ".json"):
        raise PolicyError(f"policy {path}: a policy file ends in .toml or .json")
    parse = policy_from_json if path.suffix == ".json" else policy_from_toml
    policy = parse(text, str(path))
    return policy if "name" in policy.model_fields_set else policy.model_copy(update={"name": path.stem})


def policy_to_document(policy: Policy) -> dict[str, Any]:
    """Plain values, without what is not set; `policy_from_document` reads it back."""
    document = policy.model_dump(by_alias=True, exclude_none=True, mode="json")
    return {k: v for k, v in document.items() if v not in ({}, [])}


def policy_to_json(policy: Policy) -> str:
    return json.dumps(policy_to_document(policy), indent=2, ensure_ascii=False) + "\n"


def policy_to_toml(policy: Policy) -> str:
    """TOML that `policy_from_toml` reads back to an equal policy."""
    document = policy_to_document(policy)
    lines = [f"{k} = {_toml(document[k])}" for k in ("name", "memory_limit", "strategy") if k in document]
    if policy.options:
        lines += ["", "[options]", *(f"{_toml_key(k)} = {_toml(v)}" for k, v in policy.options.items())]
    for rule in document.get("rules", ()):
        lines += ["", "[[rules]]", *(f"{k} = {_toml(v)}" for k, v in rule.items())]
    return "\n".join(lines) + "\n"


def _toml(value: OptionValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML string, except that TOML wants the delete character escaped as well.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, float) and value != value:
        return "nan"
    return repr(value)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def _first_fault(error: ValidationError) -> str:
    """One sentence about the first fault: field, value, and what would be right."""
    fault = error.errors()[0]
    where = _field(fault["loc"])
    kind = fault["type"]
    if kind == "extra_forbidden":
        fields = Rule.model_fields if fault["loc"][0] == "rules" and len(fault["loc"]) > 1 else Policy.model_fields
        names = ", ".join(f.serialization_alias or name for name, f in fields.items())
        return f"{where} is no field; the fields are {names}"
    if kind == "missing":
        return f"{where} is missing"
    if kind == "literal_error":
        words: dict[str, tuple[str, ...]] = {"class": TENSOR_CLASSES, "phase": PHASES, "action": get_args(Action)}
        return f"{where} is {fault['input']!r}; write one of {', '.join(words[str(fault['loc'][-1])])}"
    if kind == "value_error":
        message = str(fault["ctx"]["error"])
        return f"{where}: {message}" if where else message
    if fault["loc"][:1] == ("options",) and len(fault["loc"]) > 1:
        return f"options.{fault['loc'][1]} is {fault['input']!r}; write a number, a text, true or false"
    if kind == "string_type":
        return f"{where} is {fault['input']!r}; write a text in quotes"
    return f"{where or 'the document'} is {fault['input']!r}: {fault['msg'].lower()}"


def _field(loc: tuple[int | str, ...]) -> str:
    """``("rules", 1, "action")`` as ``rules[2].action``: rules are counted from 1, as people count them."""
    text = ""
    for part in loc:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}"
    return text.lstrip(".")


def _line_of(text: str, loc: tuple[int | str, ...]) -> int | None:
    """The line of a field in TOML written one key to a line; None where it is not found."""
    table, start, rules = "", 0, -1
    wanted_rule = next((part for part in loc if isinstance(part, int)), None)
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            table = stripped.split("#")[0].strip("[] ")
            if loc == (table,):
                return number
            rules += stripped.startswith("[[") and table == "rules"
            if table == "rules" and rules == wanted_rule:
                start = number
        key = re.match(r"[\"']?([A-Za-z0-9_-]+)[\"']?\s*=", stripped)
        if key is None or key[1] != str(loc[-1]):
            continue
        if wanted_rule is None or (table == "rules" and rules == wanted_rule):
            return number
    return start or None
