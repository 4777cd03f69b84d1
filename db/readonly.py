"""Reading a database file where nothing can be written: a read-only file system, or another person's folder."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote


def can_be_written(path: Path) -> bool:
    """Whether SQLite can write to a file that is there: it makes files beside it as well."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def connect_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that only reads, made so that it needs to write nothing. Raises `sqlite3.Error`."""
    connection = sqlite3.connect(reading_address(path), uri=True, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    return connection


def reading_address(path: Path) -> str:
    """The URI that opens the file for reading.

    To read a file in WAL mode SQLite makes two files beside it. Where it cannot, the file is declared unchanging,
    unless a log lies beside it: then another process writes, and its files serve.
    """
    unchanging = not os.access(path.parent, os.W_OK) and not path.with_name(f"{path.name}-wal").exists()
    return f"file:{quote(str(path.absolute()))}?mode=ro{'&immutable=1' if unchanging else ''}"
