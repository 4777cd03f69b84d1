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
    """A connection that only reads, made so that it needs to write nothing. Raises `sqlite3.Error`.

    To read a file in WAL mode SQLite makes two files beside it, a log and an index of it. Where it cannot:

    - with a log and an index another process writes, and its files serve;
    - a log without an index was left behind by a process that ended in the middle, or came along in a copy. Its changes
      belong to the database. SQLite makes the index in memory when it has the file for itself, which here needs no
      lock: who writes has an index;
    - a file without a log is declared unchanging.
    """
    how, locking = "", "NORMAL"
    if not os.access(path.parent, os.W_OK):
        log, index = (path.with_name(path.name + ending) for ending in ("-wal", "-shm"))
        if not log.exists() or not log.stat().st_size:
            how = "&immutable=1"
        elif not index.exists():
            how, locking = "&vfs=unix-none", "EXCLUSIVE"
    address = f"file:{quote(str(path.absolute()))}?mode=ro{how}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA locking_mode = {locking}")
    connection.execute("PRAGMA query_only = ON")
    return connection
