"""Every SQL statement of docs/database.md runs and finds something."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest
from profiles_samples import offload_schedule, profile_of

from db.database import open_database
from db.models import Base
from db.recordings import RunDescription, record_profile

TEXT = (Path(__file__).parent.parent / "docs" / "database.md").read_text()
STATEMENTS = re.findall(r"```sql\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_documented_question_has_an_answer(statement: str, tmp_path: Path) -> None:
    database = open_database(tmp_path / "runs.db")
    for kind in ("measured", "predicted"):
        profile = profile_of(offload_schedule(), kind)
        record_profile(database, RunDescription(kind, profile.schedule, "tiny", session="s"), profile)
    assert sqlite3.connect(database.path).execute(statement).fetchall()


def test_every_table_is_described() -> None:
    assert STATEMENTS
    assert [name for name in Base.metadata.tables if f"`{name}`" not in TEXT] == []
