"""`hyperoffload pack` and MiniMalloc's CSV."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import run
from hyperoffload_core.packing.minimalloc import BufferFileError, buffers_with_offsets, parse_buffers
from hyperoffload_core.packing.problem import Block
from tests.command import COMMAND
from tests.test_packing import check, cut_rectangle

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"
RING = "id,lower,upper,size,gaps\na,0,2,1,\nb,1,3,1,\nc,2,4,1,\nd,3,5,1,\ne,0,5,1,1-4\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    run([*arguments, "--json"])
    return dict(json.loads(capsys.readouterr().out))


def test_offsets_height_bound_and_fragmentation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "input.csv").write_text(EXAMPLE)
    shown = document(capsys, "pack", "input.csv", "--capacity", "12B", "--output", "packed.csv")
    assert shown["height"] == shown["liveness_bound"] == 12
    assert shown["within_capacity"] and shown["optimal"]
    assert shown["fragmentation_bytes"] == 0
    packed = parse_buffers((folder / "packed.csv").read_text(), "packed")
    assert [b.offset for b in packed.blocks] == list(shown["offsets"].values())
    check(packed.blocks, list(shown["offsets"].values()), 12)


def test_the_table_names_every_buffer(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "input.csv").write_text(EXAMPLE)
    assert run(["pack", "input.csv"]) == 0
    out = capsys.readouterr().out
    assert all(f"b{i} " in out for i in range(1, 6))
    assert "liveness bound" in out and "fragmentation" in out


def test_a_packed_file_is_accepted_as_it_lies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "offset,id,lower,upper,size\n8,a,0,5,4\n,b,0,5,4\n"
    (folder / "input.csv").write_text(text)
    shown = document(capsys, "pack", "input.csv", "--output", "packed.csv")
    assert shown["offsets"] == {"a": 8, "b": 0}
    assert (folder / "packed.csv").read_text() == "offset,id,lower,upper,size\n8,a,0,5,4\n0,b,0,5,4\n"


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("buffer_id,begin,upper,size\nx,1,4,8\n", [Block(8, ((1, 4),))]),
        ("size,end,start,buffer\n8,3,1,x\n", [Block(8, ((1, 4),))]),
        ("id,lower,upper,size,alignment,hint\nx,1,4,8,16,-1\n", [Block(8, ((1, 4),), 16)]),
        ("id,lower,upper,size,gaps\nx,0,9,8,2-3 5-7\n", [Block(8, ((0, 2), (3, 5), (7, 9)))]),
        ("id,lower,end,size,gaps\nx,0,8,8,2-2\n", [Block(8, ((0, 2), (3, 9)))]),
        ("id,lower,upper,size,gaps\nx,0,9,8,2-3@0:4\n", [Block(8, ((0, 9),))]),
        ("id,lower,upper,size,offset\r\nx,0,9,8,32\r\n\r\nnot read\r\n", [Block(8, ((0, 9),), 1, 32)]),
    ],
)
def test_columns_as_minimalloc_takes_them(text: str, blocks: list[Block]) -> None:
    assert list(parse_buffers(text, "f").blocks) == blocks


def test_offsets_are_written_into_the_file_as_it_was() -> None:
    file = parse_buffers("size,end,start,buffer\n8,3,1,x\n", "f")
    assert buffers_with_offsets(file, [24]) == "size,end,start,buffer,offset\n8,3,1,x,24\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "f: the file is empty"),
        ("id,lower,upper\n", "f, line 1: there is no column 'size'"),
        ("id,lower,upper,size,colour\n", "f, line 1: column 5 is called 'colour'"),
        ("id,lower,start,upper,size\n", "f, line 1: the columns 'lower' and 'start' mean the same"),
        ("id,lower,upper,size\nx,1,2\n", "f, line 2: 3 fields, but the first line names 4"),
        ("id,lower,upper,size\nx,1,2,3\nx,1,2,3\n", "f, line 3, column 'id': 'x' names a buffer that line 2"),
        ("id,lower,upper,size\nx,1,two,3\n", "f, line 2, column 'upper': 'two' is not a whole number"),
        ("id,lower,upper,size\nx,2,2,3\n", "f, line 2, column 'upper': '2' ends the lifetime before it begins"),
        ("id,lower,upper,size\nx,1,2,0\n", "f, line 2, column 'size': '0' is too small; it is at least 1"),
        ("id,lower,upper,size\nx,1,2,99999999999999999999\n", "f, line 2, column 'size'"),
        ("id,lower,upper,size,gaps\nx,1,9,3,2:3\n", "f, line 2, column 'gaps': '2:3' has '2:3', which is not"),
        ("id,lower,upper,size,gaps\nx,1,9,3,7-12\n", "gaps lie inside the lifetime"),
        ("id,lower,upper,size,offset,alignment\nx,1,9,3,4,8\n", "'4' is not a multiple of the alignment 8"),
        ("id,lower,upper,size,offset\nx,1,9,3,4\ny,8,9,3,6\n", "f, line 3, column 'offset': buffers 'x' and 'y'"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_line_and_column(text: str, says: str) -> None:
    with pytest.raises(BufferFileError) as raised:
        parse_buffers(text, "f")
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.csv"], "none.csv: the file cannot be read"),
        (["input.csv", "--capacity", "11"], "the capacity 11 is impossible; 12 bytes are needed at once"),
        (["input.csv", "--capacity", "12x"], "'12x' is not a size"),
        (["input.csv", "--seconds", "0"], "--seconds 0 is no time"),
        (["input.csv", "--seconds", "nan"], "--seconds nan is no time"),
        (["input.csv", "--seconds", "inf"], "--seconds inf is no time"),
        (["input.csv", "--output", "input.csv"], "input.csv exists; add --force"),
        (["ring.csv", "--capacity", "2"], "the search has proved that 3 bytes are needed"),
        (
            ["hard.csv", "--capacity", "4096", "--seconds", "0.01"],
            "was not reached in 0.01 s; the lowest packing found",
        ),
    ],
)
def test_wrong_input_is_one_sentence_and_code_2(
    arguments: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "input.csv").write_text(EXAMPLE)
    (folder / "ring.csv").write_text(RING)
    (folder / "hard.csv").write_text(hard_file())
    assert run(["pack", *arguments]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert says in said
    assert said.startswith("hyperoffload: ")


def hard_file(count: int = 1500) -> str:
    rows = [f"{i},{b.spans[0][0]},{b.spans[0][1]},{b.bytes}" for i, b in enumerate(cut_rectangle(count, 5))]
    return "\n".join(["id,lower,upper,size", *rows]) + "\n"


def test_an_interrupt_gives_the_best_so_far(folder: Path) -> None:
    (folder / "hard.csv").write_text(hard_file())
    command = [*COMMAND, "pack", "hard.csv", "--output", "packed.csv", "--json"]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert process.stderr is not None
    while "height" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    shown = json.loads(out)
    assert process.returncode == 130
    packed = parse_buffers((folder / "packed.csv").read_text(), "packed")
    check(packed.blocks, list(shown["offsets"].values()), shown["height"])
