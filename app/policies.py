"""Policies as the database keeps them: a named text with versions."""

from __future__ import annotations

from db.database import Database
from db.policies import save_policy
from hyperoffload_core.policy import Policy, policy_to_document, policy_to_toml


def save_version(database: Database, policy: Policy) -> int:
    """Save the policy under its name and return the row id of its version; the same text again is the same version."""
    return save_policy(database, policy.name, policy_to_toml(policy), policy_to_document(policy)).id
