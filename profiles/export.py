"""Exports: a comparison as HTML, Markdown, CSV, JSON or SVG, a profile as a Chrome trace; the format follows from the
file's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from hyperoffload_core.errors import UserError
from hyperoffload_core.files import write_whole
from hyperoffload_core.recording import Profile
from profiles.chrome_trace import trace_bytes
from profiles.compare import compare
from profiles.comparison import Comparison, LabelledProfile
from profiles.markdown import comparison_markdown
from profiles.report import report_html
from profiles.svg import comparison_svg
from profiles.tables import comparison_csv, comparison_json

_WRITERS: dict[str, Callable[[Comparison, Sequence[LabelledProfile]], str]] = {
    ".html": report_html,
    ".md": comparison_markdown,
    ".csv": lambda comparison, _: comparison_csv(comparison),
    ".json": lambda comparison, _: comparison_json(comparison),
    ".svg": comparison_svg,
}
COMPARISON_SUFFIXES = tuple(_WRITERS)
TRACE_SUFFIXES = (".json", ".json.gz")


def comparison_bytes(profiles: Sequence[LabelledProfile], suffix: str, baseline: int = 0) -> bytes:
    """The comparison in the format of a file suffix, one of `COMPARISON_SUFFIXES`. Raises `UserError`."""
    if suffix not in _WRITERS:
        raise UserError(f"a comparison cannot be written as {suffix!r}; one of {', '.join(COMPARISON_SUFFIXES)}")
    # A label may hold half of a character (a lone surrogate), which no file can.
    return _WRITERS[suffix](compare(profiles, baseline), profiles).encode(errors="replace")


def export_comparison(
    profiles: Sequence[LabelledProfile], path: Path, baseline: int = 0, overwrite: bool = False
) -> None:
    """Write the comparison to a file named with one of `COMPARISON_SUFFIXES`; it appears whole or not at all.

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
