"""The dashboard served for a measurement, by the command that a person would use."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMAND = (sys.executable, str(Path(__file__).resolve().parent.parent / "hyperoffload.py"))
_PATIENCE_S = 60.0


@contextmanager
def served(database: Path) -> Iterator[str]:
    """The address of a dashboard over the database, ended afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*COMMAND, "serve", "--database", str(database), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(address, timeout=2).close()
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)
