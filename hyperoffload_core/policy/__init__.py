"""Policies: what a person edits to say how a model is to fit the device."""

from hyperoffload_core.policy.presets import PRESETS
from hyperoffload_core.policy.rules import match_rules, prefetches_earlier, rule_matches, rule_size
from hyperoffload_core.policy.schema import (
    Action,
    Policy,
    PolicyError,
    Rule,
    policy_from_document,
    policy_from_json,
    policy_from_toml,
    policy_to_document,
    policy_to_json,
    policy_to_toml,
    read_policy,
)

__all__ = [
    "PRESETS",
    "Action",
    "Policy",
    "PolicyError",
    "Rule",
    "match_rules",
    "policy_from_document",
    "policy_from_json",
    "policy_from_toml",
    "policy_to_document",
    "policy_to_json",
    "policy_to_toml",
    "prefetches_earlier",
    "read_policy",
    "rule_matches",
    "rule_size",
]
