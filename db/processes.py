"""Whether the process that once wrote to the database still lives."""

from __future__ import annotations

import os
from pathlib import Path


def process_started(pid: int) -> str:
    """A text that tells the process from a later one with the same id; empty when the process is gone.

    On Linux the start time of ``/proc/PID/stat`` (clock ticks since boot); elsewhere only that the process exists.
    A zombie counts as gone.
    """
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            pass
        return "alive"
    try:
        # The command name (field 2) may hold spaces and parentheses; fields are counted after its last ')'.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def is_alive(pid: int | None, started: str) -> bool:
    """Whether the process that had this id when ``started`` was read (`process_started`) still runs."""
    return pid is not None and started != "" and process_started(pid) == started
