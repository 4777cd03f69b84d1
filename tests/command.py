"""Runs the real command."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = [sys.executable, str(ROOT / "hyperoffload.py")]


def hyperoffload(
    *arguments: str, folder: Path, module: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The finished command, run in ``folder``; ``module`` runs it as ``python -m hyperoffload``."""
    command = [sys.executable, "-m", "hyperoffload"] if module else COMMAND
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=dict(os.environ) | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def free_port() -> int:
    """A port of this machine that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
