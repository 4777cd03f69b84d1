"""Files written whole or not at all, and JSON read whether gzipped or not."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from hyperoffload_core.errors import UserError


class FileNotWrittenError(UserError):
    """A file that the disk or its permissions do not let us write; nothing of it is left."""


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path`` and rename it into place. Raises `FileNotWrittenError`."""
    partial = path.with_name(path.name + ".part")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise FileNotWrittenError(f"{path} cannot be written ({error.strerror or error})") from error


def read_json(path: Path) -> Any:
    """The document of a JSON file, gzipped or not. Raises `OSError`, `EOFError` or `ValueError`."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
