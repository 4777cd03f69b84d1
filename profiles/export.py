"""Exports: a comparison as HTML, CSV or JSON, a profile as a Chrome trace; the format follows from the file's name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hyperoffload_core.errors import UserError
from hyperoffload_core.files import write_whole
from hyperoffload_core.recording import Profile
from profiles.chrome_trace import trace_bytes
from profiles.compare import LabelledProfile, compare
from profiles.report import report_html
from profiles.tables import comparison_csv, comparison_json

COMPARISON_SUFFIXES = (".html", ".csv", ".json")
TRACE_SUFFIXES = (".json", ".json.gz")


def comparison_bytes(profiles: Sequence[LabelledProfile], suffix: str, baseline: int = 0) -> bytes:
    """The comparison in the format of a file suffix: ``.html``, ``.csv`` or ``.json``. Raises `UserError`."""
    comparison = compare(profiles, baseline)
    if suffix == ".html":
        return report_html(comparison, profiles).encode()
    if suffix == ".csv":
        return comparison_csv(comparison).encode()
    if suffix == ".json":
        return comparison_json(comparison).encode()
    raise UserError(f"a comparison cannot be written as {suffix!r}; one of {', '.join(COMPARISON_SUFFIXES)}")


def export_comparison(
    profiles: Sequence[LabelledProfile], path: Path, baseline: int = 0, overwrite: bool = False
) -> None:
    """Write the comparison to a file named ``.html``, ``.csv`` or ``.json``; it appears whole or not at all.

    Raises `UserError` for another name, a file that is already there (unless told to overwrite), or a failed write.
    """
    if path.suffix not in COMPARISON_SUFFIXES:
        raise UserError(f"{path} does not say the format; a comparison is written as {', '.join(COMPARISON_SUFFIXES)}")
    _check_free(path, overwrite)
    write_whole(path, comparison_bytes(profiles, path.suffix, baseline))


def export_trace(profile: Profile, label: str, path: Path, overwrite: bool = False) -> None:
    """Write the profile as a Chrome trace named ``.json`` or ``.json.gz``. Raises `UserError` as above."""
    if not path.name.endswith(TRACE_SUFFIXES):
        raise UserError(f"{path} does not say the format; a trace is written as {' or '.join(TRACE_SUFFIXES)}")
    _check_free(path, overwrite)
    write_whole(path, trace_bytes(profile, label, compress=path.suffix == ".gz"))


def _check_free(path: Path, overwrite: bool) -> None:
    if path.exists() and not overwrite:
        raise UserError(f"{path} is already there; name another file or ask to overwrite it")
