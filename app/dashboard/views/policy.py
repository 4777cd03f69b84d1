"""The policy being edited: text fields as typed, what is wrong with each, and what its rules match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.dashboard.views.clipping import LONGEST_SENTENCE, clipped
from hyperoffload_core.analysis.bounds import smallest_feasible_limit
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.errors import UserError
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import (
    Policy,
    match_rules,
    policy_from_document,
    policy_to_document,
    policy_to_toml,
    rule_size,
)
from hyperoffload_core.sizes import format_bytes, parse_percent
from hyperoffload_core.strategies import STRATEGIES, Option, find_strategy, resolve_options

CONDITIONS = ("class", "scope", "name", "min_size", "max_size", "phase")
RULE_FIELDS = (*CONDITIONS, "action", "prefetch_earlier")


@dataclass(frozen=True)
class Ground:
    """What limits refer to: the graph, its no-offload live peak, and the device. Sizes in bytes."""

    graph: Graph
    live_peak_bytes: int
    smallest_bytes: int
    device_bytes: int


@dataclass(frozen=True)
class Draft:
    """A policy as typed. ``rules`` are rows of texts; empty texts are conditions not given."""

    name: str = "unnamed"
    limit: str = "60%"
    strategy: str = "hyperoffload"
    options: Mapping[str, Any] = field(default_factory=dict)
    rules: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Checked:
    """A draft judged. ``policy`` is None while something is wrong; ``rows`` are the rules with what they match."""

    policy: Policy | None
    toml: str
    limit_error: str
    limit_note: str
    strategy_error: str
    rows: list[dict[str, Any]]
    rule_error: str

    @property
    def error(self) -> str:
        """The first thing that is wrong, in one sentence; empty when the policy can be compiled."""
        return self.limit_error or self.strategy_error or self.rule_error


def ground_of(graph: Graph, device_bytes: int) -> Ground:
    return Ground(graph, live_peak_bytes(graph), smallest_feasible_limit(graph).bytes, device_bytes)


def draft_of(policy: Policy) -> Draft:
    document = policy_to_document(policy)
    rules = [{name: rule.get(name, "") for name in RULE_FIELDS} for rule in document.get("rules", ())]
    return Draft(policy.name, policy.memory_limit or "", policy.strategy, dict(policy.options), rules)


def check(draft: Draft, ground: Ground | None) -> Checked:
    """Judge every field for itself, so that each message stands beside what it is about.

    Without a ground (no graph yet) rules are checked for form only.
    """
    policies: dict[str, Policy] = {}
    errors = {"limit": "", "strategy": "", "rules": ""}
    try:
        policies["limit"] = policy_from_document({"memory_limit": draft.limit or None})
    except UserError as error:
        errors["limit"] = _sentence(error)
    try:
        resolve_options(find_strategy(draft.strategy), draft.options)
    except UserError as error:
        errors["strategy"] = _sentence(error)
    rows = [_row(position, rule, ground) for position, rule in enumerate(draft.rules)]
    errors["rules"] = next((f"Rule {row['number']}: {row['problem']}" for row in rows if row["problem"]), "")
    note = ""
    if "limit" in policies and ground is not None:
        note, errors["limit"] = _limit_words(policies["limit"], draft.strategy, ground)
    document = document_of(draft)
    policy = None
    if not any(errors.values()):
        try:
            policy = policy_from_document(document)
        except UserError as error:
            errors["rules"] = _sentence(error)
    toml = policy_to_toml(policy) if policy is not None else ""
    return Checked(policy, toml, errors["limit"], note, errors["strategy"], rows, errors["rules"])


@dataclass(frozen=True, slots=True)
class OptionWords:
    """An option as its field shows it: a title, and what it means with its default."""

    title: str
    help: str


def option_words(option: Option) -> OptionWords:
    title = option.name.replace("_", " ").lower()
    for unit, written in (("mb", "MB"), ("gb", "GB"), ("gbps", "GB/s"), ("us", "µs"), ("kv", "KV"), ("cpu", "CPU")):
        title = " ".join(written if word == unit else word for word in title.split())
    default: Any = option.default
    if isinstance(default, bool):
        default = "on" if default else "off"
    elif isinstance(default, int) and abs(default) >= 10_000:
        default = f"{default:,}".replace(",", " ")
    help_text = option.help[:1].upper() + option.help[1:].rstrip(".")
    return OptionWords(title[:1].upper() + title[1:], f"{help_text}. Default: {default}.")


def option_errors(draft: Draft) -> dict[str, str]:
    """What is wrong with each given option of the draft's strategy, by its name."""
    result = {}
    for name, value in draft.options.items():
        try:
            resolve_options(find_strategy(draft.strategy), {name: value})
        except UserError as error:
            if draft.strategy in STRATEGIES:
                result[name] = _sentence(error)
    return result


def document_of(draft: Draft) -> dict[str, Any]:
    """The draft as a policy document, whether or not it is a valid one."""
    document: dict[str, Any] = {"name": draft.name, "strategy": draft.strategy}
    if draft.limit.strip():
        document["memory_limit"] = draft.limit
    if draft.options:
        document["options"] = dict(draft.options)
    if draft.rules:
        document["rules"] = [_rule_document(rule) for rule in draft.rules]
    return document


def limit_percent(limit: str, ground: Ground) -> float | None:
    """The limit as percentage of the live peak, for the slider; None while it is no limit."""
    try:
        policy = policy_from_document({"memory_limit": limit or None})
    except UserError:
        return None
    return 100 * policy.limit_bytes(ground.live_peak_bytes, ground.device_bytes) / max(1, ground.live_peak_bytes)


MUCH_MORE = 10
"""A limit above so many times the live peak is no share of it that says anything."""


def _limit_words(policy: Policy, strategy: str, ground: Ground) -> tuple[str, str]:
    """What the limit comes to, and what is wrong with it."""
    size = policy.limit_bytes(ground.live_peak_bytes, ground.device_bytes)
    whole = format_bytes(ground.live_peak_bytes)
    share = f"{size / max(1, ground.live_peak_bytes):.0%} of the {whole} it needs without offload"
    if size > MUCH_MORE * ground.live_peak_bytes:
        share = f"far more than the {whole} it needs without offload"
    if policy.memory_limit is None:
        return f"The whole device: {format_bytes(size)}, {share}.", ""
    if strategy != "none" and size < ground.smallest_bytes:
        smallest = ground.smallest_bytes
        percent = -(-100 * smallest // max(1, ground.live_peak_bytes))
        return "", (
            f"{format_bytes(size)} cannot be met; the smallest feasible limit is {format_bytes(smallest)} "
            f"(about {percent}%)."
        )
    if parse_percent(policy.memory_limit) is not None:
        return f"{format_bytes(size)}, {share}.", ""
    return f"{share[0].upper()}{share[1:]}.", ""


def _rule_document(rule: Mapping[str, Any]) -> dict[str, Any]:
    document = {name: str(rule[name]).strip() for name in CONDITIONS if str(rule.get(name) or "").strip()}
    document["action"] = str(rule.get("action") or "offload")
    if earlier := str(rule.get("prefetch_earlier") or "").strip():
        document["prefetch_earlier"] = earlier
    return document


def _row(position: int, rule: Mapping[str, Any], ground: Ground | None) -> dict[str, Any]:
    """One rule as a row of the grid, with what it matches or what is wrong with it."""
    row: dict[str, Any] = {name: rule.get(name) or "" for name in CONDITIONS}
    row |= {
        "id": str(rule.get("id") or f"rule{position}"),
        "number": position + 1,
        "action": rule.get("action") or "offload",
        "prefetch_earlier": rule.get("prefetch_earlier") or "",
        "count": None,
        "bytes": None,
        "problem": "",
    }
    try:
        policy = policy_from_document({"rules": [_rule_document(rule)]})
        if ground is not None:
            row["count"], row["bytes"] = rule_size(ground.graph, policy.rules[0])
            if not row["count"]:
                match_rules(ground.graph, policy)
    except UserError as error:
        row["problem"] = _sentence(error)
    return row


def _sentence(error: UserError) -> str:
    """The message without the place it names for files, and without the field it stands beside."""
    text = str(error)
    for start in ("policy: ", "memory_limit: ", "rules[1]: ", "rules[1].", "rule 1 "):
        text = text.removeprefix(start)
    return clipped(text, LONGEST_SENTENCE)
