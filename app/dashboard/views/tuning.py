"""What the address of the Tune page asks for: a policy to begin with, or rules to add to the run's own."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.dashboard.views.policy import CONDITIONS, Draft, document_of, draft_of
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import PolicyError, match_rules, policy_from_document, policy_from_json

RULE_ACTIONS = ("keep", "offload", "auto")
# What an address may say several times.
RULE_PARAMETERS = (*RULE_ACTIONS, "earlier")


def asked_draft(draft: Draft, query: Mapping[str, str | Sequence[str]], graph: Graph | None = None) -> Draft:
    """The draft after what an address asks: ``policy`` (JSON) replaces it, ``limit`` and ``strategy`` change one field,
    ``keep``, ``offload`` and ``auto`` name storages, each a rule ahead of all others; ``earlier`` names one and by how
    many ns its Prefetches are to start earlier (``NAME:NS``).

    Raises `PolicyError` for a ``policy`` that is none.
    """
    if given := _texts(query.get("policy")):
        draft = draft_of(policy_from_json(given[0], "the policy in the address"))
    if given := _texts(query.get("limit")):
        draft = replace(draft, limit=given[0])
    if (given := _texts(query.get("strategy"))) and given[0] != draft.strategy:
        # A policy that is called like its strategy goes on being called like it.
        name = given[0] if draft.name == draft.strategy else draft.name
        draft = replace(draft, name=name, strategy=given[0], options={})
    for action in RULE_ACTIONS:
        for name in _texts(query.get(action)):
            draft = with_named_rule(draft, name, action)
    for text in _texts(query.get("earlier")):
        name, _, by_ns = text.rpartition(":")
        if name and re.fullmatch(r"[0-9]{1,18}", by_ns):
            draft = with_named_rule(draft, name, _action_of(draft, graph, name), _time_text(int(by_ns)))
    return replace(draft, rules=[{**rule, "id": f"rule{number}"} for number, rule in enumerate(draft.rules)])


def _time_text(time_ns: int) -> str:
    return f"{time_ns / 1e6:.4g}ms" if time_ns >= 100_000 else f"{time_ns}ns"


def _action_of(draft: Draft, graph: Graph | None, name: str) -> str:
    """What the draft's rules say of a storage with this name: a rule for it alone must not change that. A storage that
    is kept has no Prefetch, so it becomes the strategy's to decide."""
    storages = [s.id for s in graph.storages if s.name == name] if graph is not None else []
    try:
        actions = match_rules(graph, policy_from_document(document_of(draft))) if graph is not None else ()
    except PolicyError:
        return "auto"
    action = actions[storages[0]] if storages else "auto"
    return "auto" if action == "keep" else action


def with_named_rule(draft: Draft, name: str, action: str, prefetch_earlier: str = "") -> Draft:
    """The draft with a rule for the storages of exactly this name ahead of all others, in place of one that named the
    same."""
    pattern = glob.escape(name)
    rule = {"name": pattern, "action": action, "prefetch_earlier": prefetch_earlier}
    others = [r for r in draft.rules if not _is_for(r, pattern)]
    return replace(draft, rules=[rule, *others])


def _is_for(rule: Mapping[str, Any], pattern: str) -> bool:
    given = {name: value for name, value in rule.items() if value and name in CONDITIONS}
    return given == {"name": pattern}


def _texts(value: str | Sequence[str] | None) -> list[str]:
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)
