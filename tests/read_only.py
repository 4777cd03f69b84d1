"""Runs a script where a folder is a read-only file system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
_MOUNT = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'


def run_beside_read_only(folder: Path, script: str, *arguments: str) -> str:
    """What the Python script prints; ``folder`` cannot be written for it, whoever runs it."""
    namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c", _MOUNT, "sh", str(folder)]
    try:
        possible = subprocess.run([*namespace, "true"], capture_output=True, timeout=20).returncode == 0
    except FileNotFoundError:
        possible = False
    if not possible:
        pytest.skip("this machine lets nobody mount a folder read-only")
    command = [*namespace, sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
