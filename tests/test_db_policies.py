"""Policies are saved as numbered versions that never change."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.database import Database, DatabaseError, open_database
from db.policies import diff_versions, get_policy, get_policy_version, list_policies, list_versions, save_policy


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = open_database(tmp_path / "runs.db")
    save_policy(database, "tight", 'strategy = "reactive"\nmemory_limit = "60%"', {"memory_limit": "60%"})
    save_policy(database, "tight", 'strategy = "reactive"\nmemory_limit = "45%"', {"memory_limit": "45%"}, "less")
    save_policy(database, "loose", 'strategy = "none"', {})
    return database


def test_each_new_text_is_the_next_version(database: Database) -> None:
    assert [(v.number, v.note) for v in list_versions(database, "tight")] == [(2, "less"), (1, "")]
    assert [(p.name, p.number) for p in list_policies(database)] == [("loose", 1), ("tight", 2)]


def test_the_same_text_is_not_saved_twice(database: Database) -> None:
    latest = get_policy(database, "tight")
    assert save_policy(database, "tight", latest.toml, latest.json).id == latest.id


def test_a_version_is_found_by_number_and_by_id(database: Database) -> None:
    first = get_policy(database, "tight", 1)
    assert first.json == {"memory_limit": "60%"}
    assert get_policy_version(database, first.id) == first


def test_the_difference_of_two_versions_names_both(database: Database) -> None:
    lines = diff_versions(get_policy(database, "tight", 1), get_policy(database, "tight", 2))
    assert lines[:2] == ["--- tight version 1", "+++ tight version 2"]
    assert lines[-2:] == ['-memory_limit = "60%"', '+memory_limit = "45%"']


def test_unknown_policies_say_what_there_is(database: Database) -> None:
    with pytest.raises(DatabaseError, match="no policy 'tigth'; saved policies: loose, tight"):
        get_policy(database, "tigth")
    with pytest.raises(DatabaseError, match="versions 1 to 2; there is no version 7"):
        get_policy(database, "tight", 7)
    with pytest.raises(DatabaseError, match="needs a name"):
        save_policy(database, "  ", "", {})
