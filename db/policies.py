"""Policies: named texts with numbered versions that never change."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, insert, select

from db.database import Database, DatabaseError
from db.models import Policy, PolicyVersion


@dataclass(frozen=True)
class PolicyVersionRow:
    """One version: its row id, the policy's name, number from 1, the text as written and as JSON."""

    id: int
    name: str
    number: int
    toml: str
    json: dict[str, Any]
    note: str
    created: datetime


def save_policy(database: Database, name: str, toml: str, json: dict[str, Any], note: str = "") -> PolicyVersionRow:
    """Save a text as the policy's next version; the same text as the latest version is not saved twice."""
    name = name.strip()
    if not name:
        raise DatabaseError("a policy needs a name")
    with database.write() as connection:
        policy = connection.execute(select(Policy.id).where(Policy.name == name)).scalar()
        if policy is None:
            policy = connection.execute(insert(Policy).values(name=name).returning(Policy.id)).scalar_one()
        newest = _versions().where(PolicyVersion.policy_id == policy).order_by(PolicyVersion.number.desc()).limit(1)
        latest = connection.execute(newest).one_or_none()
        if latest is not None and latest.toml == toml:
            return PolicyVersionRow(**latest._mapping)
        number = latest.number + 1 if latest is not None else 1
        values = {"policy_id": policy, "number": number, "toml": toml, "json": json, "note": note}
        connection.execute(insert(PolicyVersion).values(values))
        return PolicyVersionRow(**connection.execute(newest).one()._mapping)


def list_policies(database: Database) -> list[PolicyVersionRow]:
    """The latest version of every policy, by name."""
    newest = select(func.max(PolicyVersion.id)).group_by(PolicyVersion.policy_id)
    with database.read() as connection:
        query = _versions().where(PolicyVersion.id.in_(newest)).order_by(Policy.name)
        return [PolicyVersionRow(**row._mapping) for row in connection.execute(query)]


def list_versions(database: Database, name: str) -> list[PolicyVersionRow]:
    """Every version of a policy, newest first; empty for an unknown name."""
    query = _versions().where(Policy.name == name).order_by(PolicyVersion.number.desc())
    with database.read() as connection:
        return [PolicyVersionRow(**row._mapping) for row in connection.execute(query)]


def get_policy(database: Database, name: str, number: int | None = None) -> PolicyVersionRow:
    """One version, the latest unless numbered. Raises `DatabaseError` that says what there is."""
    versions = list_versions(database, name)
    if not versions:
        names = ", ".join(row.name for row in list_policies(database)) or "none yet"
        raise DatabaseError(f"there is no policy {name!r}; saved policies: {names}")
    for version in versions:
        if number is None or version.number == number:
            return version
    raise DatabaseError(f"policy {name!r} has versions 1 to {versions[0].number}; there is no version {number}")


def get_policy_version(database: Database, version_id: int) -> PolicyVersionRow:
    """The version with this row id, as runs refer to it."""
    with database.read() as connection:
        row = connection.execute(_versions().where(PolicyVersion.id == version_id)).one_or_none()
    if row is None:
        raise DatabaseError(f"there is no policy version with id {version_id}")
    return PolicyVersionRow(**row._mapping)


def diff_versions(old: PolicyVersionRow, new: PolicyVersionRow) -> list[str]:
    """Lines of a unified difference of the two texts; empty when they are equal."""
    before, after = (f"{version.name} version {version.number}" for version in (old, new))
    return diff_texts(old.toml, new.toml, before, after)


def diff_texts(old: str, new: str, before: str, after: str, context: int = 3) -> list[str]:
    """Lines of a unified difference of two texts with these titles; empty when they are equal."""
    return list(difflib.unified_diff(old.splitlines(), new.splitlines(), before, after, lineterm="", n=context))


def _versions() -> Select[*tuple[Any, ...]]:
    v = PolicyVersion
    return select(v.id, Policy.name, v.number, v.toml, v.json, v.note, v.created).join(Policy, Policy.id == v.policy_id)
