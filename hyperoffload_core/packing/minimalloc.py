"""MiniMalloc's CSV of buffers: reading it into blocks, and writing it with offsets.

Columns in any order: ``id``, ``lower``, ``upper``, ``size`` and, where wanted, ``alignment``, ``gaps``, ``offset``,
``hint``. Lifetimes are half-open. Also understood: ``buffer`` and ``buffer_id`` for id, ``begin`` and ``start`` for
lower, and ``end`` for an upper that is itself the last moment of the lifetime (one is added, to the ends of gaps too).
``gaps`` holds stretches ``lo-hi`` in which the buffer needs nothing; of a stretch ``lo-hi@low:high`` it needs the bytes
low to high of its own, for which all of it is kept here. A negative ``hint`` means none; hints change nothing here.
Reading stops at the first empty line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hyperoffload_core.errors import UserError
from hyperoffload_core.packing.problem import Block

_ALIASES = {"buffer": "id", "buffer_id": "id", "begin": "lower", "start": "lower", "end": "upper"}
_NEEDED = ("id", "lower", "upper", "size")
_OPTIONAL = ("alignment", "gaps", "offset", "hint")
_GAP = re.compile(r"(\d+)-(\d+)(?:@(\d+):(\d+))?")
_LARGEST = 1 << 53


class BufferFileError(UserError):
    """A file that is not MiniMalloc's CSV; the message names line and column."""


@dataclass(frozen=True)
class BufferFile:
    """The buffers of a file: ``ids`` and ``lifetimes`` (half-open) as written, ``blocks`` to pack.

    ``lines`` are the header and the rows as they stand in the file; ``kept_windows`` counts the gaps of which all
    bytes are kept although the file asks for some of them only.
    """

    ids: tuple[str, ...]
    lifetimes: tuple[tuple[int, int], ...]
    blocks: tuple[Block, ...]
    lines: tuple[tuple[str, ...], ...]
    kept_windows: int


def read_buffers(path: Path) -> BufferFile:
    """The buffers of a CSV file. Raises `BufferFileError`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not text"
        raise BufferFileError(f"{path}: the file cannot be read ({reason})") from error
    return parse_buffers(text, str(path))


def parse_buffers(text: str, name: str) -> BufferFile:
    """The same for a text; ``name`` is what messages call it."""
    rows: list[tuple[str, ...]] = []
    for line in text.splitlines():
        if not line.strip():
            break
        rows.append(tuple(field.strip() for field in line.split(",")))
    if not rows:
        raise BufferFileError(
            f"{name}: the file is empty; its first line names the columns, such as id,lower,upper,size"
        )
    columns = _columns(rows[0], name)
    closed = 1 if "end" in (field.lower() for field in rows[0]) else 0
    ids, lifetimes, blocks = [], [], []
    line_of: dict[str, int] = {}
    kept_windows = 0
    for number, fields in enumerate(rows[1:], start=2):
        if len(fields) != len(rows[0]):
            raise BufferFileError(
                f"{name}, line {number}: {len(fields)} fields, but the first line names {len(rows[0])}"
            )
        row = _Row(name, number, rows[0], columns, fields)
        buffer_id = row.text("id")
        if not buffer_id:
            raise row.wrong("id", "is empty; every buffer needs an id")
        if buffer_id in line_of:
            raise row.wrong("id", f"names a buffer that line {line_of[buffer_id]} already has")
        line_of[buffer_id] = number
        lower, upper = row.whole("lower", least=None), row.whole("upper", least=None) + closed
        if upper <= lower:
            raise row.wrong("upper", f"ends the lifetime before it begins at {lower}")
        gaps, windows = row.gaps(lower, upper, closed)
        kept_windows += windows
        alignment = row.whole("alignment", least=1) if row.text("alignment") else 1
        offset = row.whole("offset", least=0) if row.text("offset") else None
        if row.text("hint"):
            row.whole("hint", least=None)
        if offset is not None and offset % alignment:
            raise row.wrong("offset", f"is not a multiple of the alignment {alignment}")
        ids.append(buffer_id)
        lifetimes.append((lower, upper))
        blocks.append(Block(row.whole("size", least=1), _without(lower, upper, gaps), alignment, offset))
    _check_given_offsets(name, ids, blocks, line_of)
    return BufferFile(tuple(ids), tuple(lifetimes), tuple(blocks), tuple(rows), kept_windows)


def buffers_with_offsets(file: BufferFile, offsets: Sequence[int]) -> str:
    """The file's text with the offsets in its column ``offset``, which is added as the last if it has none."""
    header = file.lines[0]
    at = next((i for i, field in enumerate(header) if field.lower() == "offset"), len(header))
    lines = [(*header[:at], "offset", *header[at + 1 :])]
    lines += [(*row[:at], str(o), *row[at + 1 :]) for row, o in zip(file.lines[1:], offsets, strict=True)]
    return "".join(",".join(line) + "\n" for line in lines)


def _columns(header: Sequence[str], name: str) -> dict[str, int]:
    columns: dict[str, int] = {}
    for index, field in enumerate(header):
        column = _ALIASES.get(field.lower(), field.lower())
        if column not in (*_NEEDED, *_OPTIONAL):
            known = ", ".join((*_NEEDED, *_OPTIONAL))
            raise BufferFileError(f"{name}, line 1: column {index + 1} is called {field!r}; the columns are {known}")
        if column in columns:
            first = header[columns[column]]
            raise BufferFileError(f"{name}, line 1: the columns {first!r} and {field!r} mean the same; leave one out")
        columns[column] = index
    missing = [column for column in _NEEDED if column not in columns]
    if missing:
        raise BufferFileError(f"{name}, line 1: there is no column {missing[0]!r}; needed are {', '.join(_NEEDED)}")
    return columns


@dataclass(frozen=True)
class _Row:
    name: str
    number: int
    header: Sequence[str]
    columns: dict[str, int]
    fields: Sequence[str]

    def text(self, column: str) -> str:
        return self.fields[self.columns[column]] if column in self.columns else ""

    def wrong(self, column: str, what: str) -> BufferFileError:
        called = self.header[self.columns[column]]
        return BufferFileError(f"{self.name}, line {self.number}, column {called!r}: {self.text(column)!r} {what}")

    def whole(self, column: str, least: int | None) -> int:
        try:
            value = int(self.text(column))
        except ValueError:
            raise self.wrong(column, "is not a whole number") from None
        if least is not None and value < least:
            raise self.wrong(column, f"is too small; it is at least {least}")
        if abs(value) > _LARGEST:
            raise self.wrong(column, "is out of range; numbers go up to 2^53")
        return value

    def gaps(self, lower: int, upper: int, closed: int) -> tuple[list[tuple[int, int]], int]:
        """Stretches in which the buffer needs no bytes, and the number of those in which it needs some."""
        empty, windows, after = [], 0, lower
        for text in self.text("gaps").split():
            match = _GAP.fullmatch(text)
            if match is None:
                raise self.wrong("gaps", f"has {text!r}, which is not lo-hi or lo-hi@low:high")
            begin, end = int(match[1]), int(match[2]) + closed
            if begin < after or end <= begin or end > upper:
                raise self.wrong("gaps", f"has {text!r}; gaps lie inside the lifetime, one after the other")
            after = end
            if match[3] is None:
                empty.append((begin, end))
            else:
                windows += 1
        return empty, windows


def _without(lower: int, upper: int, gaps: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    starts, ends = [lower, *(end for _, end in gaps)], [*(begin for begin, _ in gaps), upper]
    return tuple((s, e) for s, e in zip(starts, ends, strict=True) if e > s)


def _check_given_offsets(name: str, ids: Sequence[str], blocks: Sequence[Block], line_of: dict[str, int]) -> None:
    """Buffers that lie where the file says must not overlap; found by sweeping over time."""
    given = [(s, e, i) for i, b in enumerate(blocks) if b.offset is not None for s, e in b.spans]
    alive: list[tuple[int, int]] = []
    for start, end, index in sorted(given):
        alive = [(e, i) for e, i in alive if e > start]
        block = blocks[index]
        assert block.offset is not None
        for _, other in alive:
            offset = blocks[other].offset
            if (
                offset is not None
                and offset < block.offset + block.bytes
                and block.offset < offset + blocks[other].bytes
            ):
                raise BufferFileError(
                    f"{name}, line {line_of[ids[index]]}, column 'offset': buffers {ids[other]!r} and {ids[index]!r} "
                    f"exist at the same time and are given the same bytes"
                )
        alive.append((end, index))
