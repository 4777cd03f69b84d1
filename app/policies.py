"""Policies as the database keeps them: a named text with versions, shown, compared and restored."""

from __future__ import annotations

from db.database import Database
from db.policies import PolicyVersionRow, get_policy, list_policies, list_versions, save_policy
from hyperoffload_core.policy import Policy, policy_from_toml, policy_to_document, policy_to_toml


def save_version(database: Database, policy: Policy, note: str = "") -> int:
    """Save the policy under its name and return the row id of its version; the same text again is the same version."""
    return save_policy(database, policy.name, policy_to_toml(policy), policy_to_document(policy), note).id


def saved_names(database: Database) -> list[str]:
    """Names of all saved policies."""
    return [version.name for version in list_policies(database)]


def policy_versions(database: Database, name: str) -> list[PolicyVersionRow]:
    """Every version of a policy, newest first; empty for an unknown name."""
    return list_versions(database, name.strip())


def restore_version(database: Database, name: str, number: int) -> PolicyVersionRow:
    """Save an older text again as the newest version, with a note that says where it is from; the latest version stays
    what it is. Raises `DatabaseError` for a policy or version that does not exist."""
    version = get_policy(database, name.strip(), number)
    policy = policy_from_toml(version.toml, f"policy {name} version {number}").model_copy(update={"name": version.name})
    save_version(database, policy, f"restored from version {version.number}")
    return get_policy(database, version.name)
