"""Writing a file whole or not at all."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

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
