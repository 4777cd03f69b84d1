"""What crosses from a worker to its parent comes out as it went in."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.graphfile import GraphFile, GraphFileError, read_graph, write_graph
from hyperoffload_core.policy import Policy
from hyperoffload_core.simulator import simulate
from hyperoffload_core.spool import Captured, Checked, Compiled, Event, Progress, Recorded, SpoolReader, SpoolWriter
from tests.graphs import TINY, training

GRAPH = training(3)


def _through(folder: Path, events: list[Event]) -> list[Event]:
    lines: list[str] = []
    write, read = SpoolWriter(folder, lines.append), SpoolReader(folder)
    for event in events:
        write(event)
    assert all("\n" not in line for line in lines)
    return [read(json.loads(line)) for line in lines]


def test_every_event_comes_out_as_it_went_in_and_no_file_stays(tmp_path: Path) -> None:
    durations = Durations(tuple(range(10, 10 + len(GRAPH.ops))), "by hand")
    schedule = compile_schedule(GRAPH, durations, TINY, Policy(memory_limit="80%"))
    profile = simulate(schedule)
    events: list[Event] = [
        Progress(1, 3, "half way"),
        Captured(GraphFile(GRAPH, {"model": "a.py:b"}), 5),
        Compiled(0, schedule, 7),
        Recorded(0, profile),
        Checked({-1: True, 0: None}, "a note"),
    ]
    out = _through(tmp_path, events)
    assert out[:2] == events[:2]
    assert isinstance(out[2], Compiled)
    assert out[2].schedule.hash == schedule.hash
    assert isinstance(out[3], Recorded)
    assert (out[3].profile.kind, out[3].profile.conditions) == (profile.kind, profile.conditions)
    for part in ("ops", "transfers", "lifetimes", "steps"):
        before, after = getattr(profile, part), getattr(out[3].profile, part)
        assert all(np.array_equal(getattr(before, f.name), getattr(after, f.name)) for f in fields(before))
    assert out[4] == events[4]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["graph.json", "graph.json.gz"])
def test_a_graph_file_reads_back_equal(name: str, tmp_path: Path) -> None:
    write_graph(GraphFile(GRAPH, {"model": "tiny"}), tmp_path / name)
    content = read_graph(tmp_path / name)
    assert (content.graph, content.graph.hash, content.source) == (GRAPH, GRAPH.hash, {"model": "tiny"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(format="x"), "not a graph file"),
        (lambda d: d.update(version=2), "version 2; this program reads version 1"),
        (lambda d: d.pop("ops"), "the field 'ops' is missing"),
        (lambda d: d["storages"][0].update(bytes=0), "a storage holds at least one byte"),
        (lambda d: d["storages"][0].update(bytes=d["storages"][0]["bytes"] + 1), "so the file was changed"),
        (lambda d: d["ops"][0].update(colour="red"), "colour"),
    ],
)
def test_a_fault_in_a_graph_file_is_named_with_the_file(change, says: str, tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    write_graph(GraphFile(GRAPH), file)
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
    with pytest.raises(GraphFileError) as error:
        read_graph(file)
    assert says in str(error.value)
    assert str(file) in str(error.value)
