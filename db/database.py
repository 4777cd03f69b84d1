"""Opening the database: one SQLite file, created and migrated here, every failure said in one sentence."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError

from db.abandoned import mark_abandoned
from db.readonly import can_be_written, connect_for_reading
from hyperoffload_core.errors import UserError

HEAD = "0002"
APPLICATION_ID = 0x48_4F_46_4C  # "HOFL", so that a file of another program is recognised
BUSY_TIMEOUT_MS = 10_000
READ_ONLY_REMEDY = "copy it to a folder of your own and name the copy with --database"


class DatabaseError(UserError):
    """The database cannot be used; the message is one sentence for a person."""


@dataclass(frozen=True)
class Database:
    """An open database. Connections are taken from the engine's pool; any thread may ask for one. One that is
    ``read_only`` lies where this process cannot write."""

    path: Path
    engine: Engine
    read_only: bool = False
    # Device and inode of the file once it was there: an open file goes on living after another has taken its place.
    file: tuple[int, int] | None = None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection in a read transaction: everything read inside is one state of the database."""
        with _explained(self.path), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A connection in a write transaction, committed at the end, rolled back when an exception leaves it."""
        require_writable(self)
        with _explained(self.path), self.engine.connect() as connection:
            connection = connection.execution_options(writes=True)
            with connection.begin():
                yield connection

    def close(self) -> None:
        self.engine.dispose()


def open_database(path: Path | str, create: bool = True) -> Database:
    """Open the file, create it in a folder that is there when missing (unless told not to), migrate an older one, close
    abandoned runs.
    A file that cannot be written (a read-only file system, another person's folder) is opened for reading only.

    Raises `DatabaseError`: missing (``create=False``), in no folder, no database, of another program, of a newer
    version, unwritable and not there or of an older schema, locked, disk full.
    """
    path = Path(path).expanduser().absolute()
    if path.is_dir():
        raise DatabaseError(f"{path} is a folder; the database is a file, for instance {path / 'hyperoffload.db'}")
    if not path.exists():
        if not create:
            raise DatabaseError(f"there is no database at {path}; `hyperoffload demo` or `hyperoffload run` makes one")
        if not path.parent.is_dir():  # not made here: a mistyped path would go unnoticed
            raise DatabaseError(f"there is no folder {path.parent} for a database; make it, or name another file")
    read_only = path.exists() and not can_be_written(path)
    database = Database(path, _reading_engine(path) if read_only else _engine(path), read_only)
    try:
        _bring_up_to_date(database)
        if not read_only:
            mark_abandoned(database)
        return replace(database, file=_file_at(path))
    except BaseException:
        database.close()
        raise


def require_writable(database: Database) -> None:
    """Raises `DatabaseError` when nothing can be saved: for work that takes long and is recorded at its end."""
    if database.read_only:
        raise DatabaseError(f"{database.path} cannot be written here, so nothing can be saved; {READ_ONLY_REMEDY}")


def _reading_engine(path: Path) -> Engine:
    # A connection for each read: whether the file can change under it depends on what lies beside it just then.
    engine = create_engine("sqlite://", creator=lambda: connect_for_reading(path), poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def _engine(path: Path) -> Engine:
    engine = create_engine(URL.create("sqlite", database=str(path)))

    @event.listens_for(engine, "connect")
    def _connect(connection: sqlite3.Connection, _record: object) -> None:
        # Transactions are opened by _begin; the driver's own implicit ones would start too late for DDL and reads.
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A writer takes its lock at once: a reader that turns writer could fail without waiting.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _bring_up_to_date(database: Database) -> None:
    with database.read() as connection:
        if _revision(connection, database.path) == HEAD:
            return
    if database.read_only:
        raise DatabaseError(
            f"{database.path} is of an older schema and cannot be written here, which bringing it up to date needs; "
            f"{READ_ONLY_REMEDY}"
        )
    # Imported only where it is needed: an up-to-date database opens without it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "db:migrations")
    with database.write() as connection:
        # Asked again under the lock: another process may have migrated meanwhile.
        if _revision(connection, database.path) != HEAD:
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            config.attributes["connection"] = connection
            command.upgrade(config, HEAD)


def compact(database: Database) -> None:
    """Give the room of removed rows back to the disk (VACUUM); others may go on reading."""
    require_writable(database)
    with _explained(database.path):
        connection = database.engine.raw_connection()
        try:
            connection.cursor().execute("VACUUM")
        finally:
            connection.close()


def check_schema(database: Database) -> None:
    """Raises `DatabaseError` when the file has got another schema, become another program's, gone, or been replaced by
    another since it was opened."""
    if (now := _file_at(database.path)) != database.file:
        what = "is not there any more" if now is None else "was replaced by another file"
        raise DatabaseError(f"{database.path} {what} since this program opened it; restart this program")
    with database.read() as connection:
        revision = _revision(connection, database.path)
    if revision != HEAD:
        raise DatabaseError(
            f"{database.path} is no longer of schema {HEAD} (it has {revision or 'none'}); restart this program"
        )


def _file_at(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _revision(connection: Connection, path: Path) -> str:
    """The schema revision, empty for a new file. Raises `DatabaseError` for a file that is not ours or newer."""
    tables = {row[0] for row in connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return ""
    application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    if application != APPLICATION_ID or "alembic_version" not in tables:
        raise DatabaseError(f"{path} is an SQLite database of another program; name another file")
    revision = str(connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one())
    # Revisions are numbered, so their texts sort by age.
    if revision > HEAD:
        raise DatabaseError(
            f"{path} was written by a newer HyperOffload (schema {revision}, this program knows up to {HEAD}); "
            "update this program or name another file"
        )
    return revision


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn the driver's errors that a person can act on into one sentence; others stay as they are."""
    try:
        yield
    except DBAPIError as error:
        sentence = _sentence(str(error.orig), path)
        if sentence is None:
            raise
        raise DatabaseError(sentence) from error
    except sqlite3.DatabaseError as error:
        sentence = _sentence(str(error), path)
        if sentence is None:
            raise
        raise DatabaseError(sentence) from error


def _sentence(message: str, path: Path) -> str | None:
    meanings = {
        "file is not a database": f"{path} is not a database; name another file",
        "malformed": f"{path} is damaged (SQLite: {message}); restore it from a copy or name another file",
        "is locked": f"{path} is locked by another process; wait until that has finished and try again",
        "disk is full": f"the disk that holds {path} is full; free some space and try again",
        "disk I/O error": f"{path} cannot be read or written (SQLite: {message}); check the disk",
        "readonly database": f"{path} cannot be written; check its permissions or name another file",
        "no such table": f"{path} is no longer of schema {HEAD}; restart this program, which brings it up to date",
        "no such column": f"{path} is no longer of schema {HEAD}; restart this program, which brings it up to date",
        "unable to open": f"{path} cannot be opened or made; check the permissions of {path.parent}",
    }
    return next((sentence for part, sentence in meanings.items() if part in message), None)
