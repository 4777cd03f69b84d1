"""What people do with recorded runs: tag, note, archive, delete with a way back, remove for good.

Each function changes all runs it is given in one transaction, or none, and raises `DatabaseError` for one it cannot
change. A deleted run keeps its rows and can be restored until it is purged, by hand or `KEPT_AFTER_DELETION` later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from db.database import Database, DatabaseError
from db.models import LARGEST_ID, GraphRow, Run, ScheduleRow, utc_now

KEPT_AFTER_DELETION = timedelta(days=30)
LONGEST_TAG = 60
MOST_TAGS = 30
LONGEST_NOTE = 20_000
LONGEST_NAME = 200


def tag_runs(database: Database, run_ids: Sequence[int], add: Iterable[str] = (), remove: Iterable[str] = ()) -> None:
    """Add tags to runs and take others away; the rest of their tags stays, in its order."""
    added, removed = [checked_tag(tag) for tag in add], {tag.strip() for tag in remove}
    with database.write() as connection:
        for row in _known(connection, run_ids):
            tags = [tag for tag in dict.fromkeys([*row.tags, *added]) if tag not in removed]
            if len(tags) > MOST_TAGS:
                raise DatabaseError(f"run {row.id} would have {len(tags)} tags; at most {MOST_TAGS} are kept")
            connection.execute(update(Run).where(Run.id == row.id).values(tags=tags))


def note_runs(database: Database, run_ids: Sequence[int], note: str) -> None:
    """Write a note to runs in place of the one they have; empty removes it."""
    note = note.strip()
    if len(note) > LONGEST_NOTE:
        raise DatabaseError(f"the note has {len(note):,} characters; at most {LONGEST_NOTE:,} are kept")
    _set(database, run_ids, note=note)


def name_run(database: Database, run_id: int, name: str) -> None:
    """Give a run a name (its label) in place of the one it has; empty removes it."""
    name = " ".join(name.split())
    if len(name) > LONGEST_NAME:
        raise DatabaseError(f"the name has {len(name):,} characters; at most {LONGEST_NAME} are kept")
    _set(database, [run_id], label=name)


@dataclass(frozen=True, slots=True)
class RunWords:
    """What people wrote about a run: its name (label), tags and note."""

    run: int
    name: str
    tags: tuple[str, ...]
    note: str


def words_of(database: Database, run_ids: Sequence[int]) -> list[RunWords]:
    """What runs are called, tagged and noted now, so that `put_words` can bring it back."""
    with database.read() as connection:
        return [RunWords(row.id, row.label, tuple(row.tags), row.note) for row in _known(connection, run_ids)]


def put_words(database: Database, words: Sequence[RunWords]) -> None:
    """Give runs the names, tags and notes of `words_of` again, whatever they have now."""
    with database.write() as connection:
        _known(connection, [run.run for run in words])
        for run in words:
            values = {"label": run.name, "tags": list(run.tags), "note": run.note}
            connection.execute(update(Run).where(Run.id == run.run).values(**values))


def archive_runs(database: Database, run_ids: Sequence[int], archived: bool = True) -> None:
    """Put runs into the archive, where lists do not show them unless asked, or take them out of it."""
    _set(database, run_ids, archived=archived)


def delete_runs(database: Database, run_ids: Sequence[int]) -> list[int]:
    """Delete runs so that `restore_runs` can bring them back; the ids that were not deleted before.

    A running run is refused: its recording would go on.
    """
    with database.write() as connection:
        rows = _known(connection, run_ids)
        if running := [row.id for row in rows if row.status == "running"]:
            raise DatabaseError(f"run {running[0]} is still being recorded; cancel it first")
        fresh = [row.id for row in rows if row.deleted is None]
        connection.execute(update(Run).where(Run.id.in_(fresh)).values(deleted=utc_now()))
    return fresh


def restore_runs(database: Database, run_ids: Sequence[int]) -> None:
    """Bring deleted runs back as they were; runs that are not deleted stay as they are."""
    _set(database, run_ids, deleted=None)


def purge_runs(database: Database, run_ids: Sequence[int]) -> None:
    """Remove deleted runs for good, with their events, and the schedules and graphs that no other run uses."""
    with database.write() as connection:
        rows = _known(connection, run_ids)
        if kept := [row.id for row in rows if row.deleted is None]:
            raise DatabaseError(f"run {kept[0]} is not deleted; delete it first, then purge it")
        _remove(connection, [row.id for row in rows])


def purge_expired(database: Database, now: datetime | None = None) -> list[int]:
    """Remove for good what was deleted longer than `KEPT_AFTER_DELETION` ago; the ids."""
    before = (now or utc_now()) - KEPT_AFTER_DELETION
    query = select(Run.id).where(Run.deleted < before)
    with database.read() as connection:
        if not connection.execute(query.limit(1)).first():
            return []
    with database.write() as connection:
        ids = list(connection.execute(query).scalars())
        _remove(connection, ids)
    return ids


def deleted_runs(database: Database) -> list[int]:
    """Runs that can be restored or purged, the one deleted last first."""
    with database.read() as connection:
        query = select(Run.id).where(Run.deleted.is_not(None)).order_by(Run.deleted.desc(), Run.id.desc())
        return list(connection.execute(query).scalars())


def checked_tag(text: str) -> str:
    """The tag without surrounding blanks. Raises `DatabaseError` for one that is empty or too long."""
    tag = " ".join(text.split())
    if not tag:
        raise DatabaseError("a tag needs a letter at least")
    if len(tag) > LONGEST_TAG:
        raise DatabaseError(f"the tag {tag[:20]!r}... has {len(tag):,} characters; at most {LONGEST_TAG} are kept")
    return tag


def _set(database: Database, run_ids: Sequence[int], **values: Any) -> None:
    with database.write() as connection:
        ids = [row.id for row in _known(connection, run_ids)]
        connection.execute(update(Run).where(Run.id.in_(ids)).values(**values))


def _known(connection: Connection, run_ids: Sequence[int]) -> Sequence[Any]:
    """The rows of the runs. Raises `DatabaseError` for an id without one."""
    asked = list(dict.fromkeys(run_ids))
    possible = [i for i in asked if 0 <= i <= LARGEST_ID]
    rows = connection.execute(
        select(Run.id, Run.status, Run.label, Run.tags, Run.note, Run.deleted)
        .where(Run.id.in_(possible))
        .order_by(Run.id)
    ).all()
    missing = set(asked) - {row.id for row in rows}
    if missing:
        raise DatabaseError(f"there is no run {min(missing)}; `hyperoffload runs` lists them")
    return rows


def _remove(connection: Connection, run_ids: Sequence[int]) -> None:
    rows = connection.execute(select(Run.graph_id, Run.schedule_id).where(Run.id.in_(run_ids))).all()
    connection.execute(delete(Run).where(Run.id.in_(run_ids)))
    # Only documents of these runs are looked at: whoever records at this moment may just have stored another.
    for schedule in {row.schedule_id for row in rows}:
        if not connection.execute(select(func.count()).where(Run.schedule_id == schedule)).scalar_one():
            connection.execute(delete(ScheduleRow).where(ScheduleRow.id == schedule))
    for graph in {row.graph_id for row in rows}:
        used = [select(func.count()).where(column == graph) for column in (Run.graph_id, ScheduleRow.graph_id)]
        if not any(connection.execute(query).scalar_one() for query in used):
            connection.execute(delete(GraphRow).where(GraphRow.id == graph))
