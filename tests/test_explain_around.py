"""`hyperoffload explain --around`: the neighbourhood that the graph page draws, as text."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dashboard_example import example_profile, example_schedule

from app.cli.main import run
from app.dashboard.views.graph_boxes import Around, drawing
from app.dashboard.views.graph_layers import layers_of
from app.dashboard.views.step import StepView
from db.database import open_database
from db.recordings import RunDescription, record_profile
from tests.command import ROOT

Explain = Callable[..., str]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("around") / "around.db"
    opened = open_database(path)
    schedule = example_schedule()
    record_profile(opened, RunDescription("measured", schedule, "example"), example_profile(schedule, "measured"))
    opened.close()
    return path


@pytest.fixture
def explain(database: Path, capsys: pytest.CaptureFixture[str]) -> Explain:
    """What `hyperoffload explain 1` prints, of the given arguments."""

    def explained(*arguments: str, code: int = 0) -> str:
        assert run(["explain", "1", *arguments, "--database", str(database)]) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    return explained


def around(explain: Explain, *arguments: str) -> dict[str, dict[str, object]]:
    """The nodes by key."""
    found = json.loads(explain("--around", *arguments, "--json"))["around"]
    return {node["node"]: node for node in found["nodes"]}


@pytest.mark.parametrize("hops", [0, 1, 3])
def test_the_nodes_are_those_that_the_graph_page_draws(explain: Explain, hops: int) -> None:
    view = StepView(example_profile(example_schedule(), "measured"))
    storage = next(s.id for s in view.profile.schedule.graph.storages if s.name == "layer3.hidden")
    drawn = drawing(view.links, view, Around("storage", storage), hops, "scheduled")
    nodes = around(explain, "layer3.hidden", "--hops", str(hops))
    assert {key: (node["title"], node["note"]) for key, node in nodes.items()} == {
        f"{box.node[0]}:{box.node[1]}": (box.label.title, box.label.note) for box in drawn.boxes
    }


def test_a_storage_stands_with_its_ops_and_the_cache_operators_on_it(explain: Explain) -> None:
    centre = {k for k, node in around(explain, "layer3.hidden", "--hops", "0").items() if node["centre"]}
    ops = {"op:3", "op:4", "op:13"}
    assert {key for key in centre if key.startswith("op:")} == ops
    assert len(centre) == 5  # with its Store and its Prefetch
    assert set(around(explain, "layer3.hidden", "--hops", "0", "--captured")) == ops


def test_what_an_op_waits_for_is_said(explain: Explain) -> None:
    text = explain("--around", "backward3")
    assert "around op backward3: " in text and "in the scheduled graph" in text
    row = next(line for line in text.splitlines() if line.startswith("*"))
    assert "MatMulGrad" in row and "op:3" in row.split("backward3")[1] and "transfer:" in row.split("backward3")[1]
    edges = json.loads(explain("--around", "backward3", "--json"))["around"]["edges"]
    assert {"before": "op:3", "after": "op:13", "kind": "data"} in edges


def test_a_part_of_a_name_is_enough_where_only_one_thing_has_it_and_numbers_name_the_rest(explain: Explain) -> None:
    assert around(explain, "BACKWARD7") == around(explain, "op:9") == around(explain, "backward7")
    said = explain("--around", "forward", code=2)
    assert "'forward' names 8 ops and storages; write one of them as op:0 (forward0), op:1 (forward1)" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--around", "layr3.hiden"], "no op and no storage is called 'layr3.hiden'; near matches: layer3.hidden"),
        (["--around", "op:99"], "there is no op 99; this graph has 25, numbered from 0"),
        (
            ["--around", "loss", "--hops", "2"],
            "'loss' names 2 ops and storages; write one of them as op:8 (loss)",
        ),
        (["--around", "op:8", "--hops", "9"], "a neighbourhood of 9 hops is not drawn; name 0 to 5"),
        (["--around", "op:8", "--step", "4"], "there is no step 4"),
    ],
)
def test_what_is_not_there_is_one_sentence(explain: Explain, arguments: list[str], says: str) -> None:
    said = explain(*arguments, code=2).strip()
    assert says in said and "\n" not in said


def test_a_terminal_needs_no_dash() -> None:
    code = "import sys, app.surroundings; sys.exit(int('dash' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_layers_are_those_of_the_graph_page(explain: Explain) -> None:
    schedule = example_schedule()
    shown = layers_of(StepView(example_profile(schedule, "measured")))
    document = json.loads(explain("--layers", "--json"))["layers"]
    assert [(box["layer"], box["phase"], box["ops"], box["time_ns"], box["bytes"]) for box in document["layers"]] == [
        (box.layer, box.phase, box.ops, box.time_ns, box.bytes) for box in shown.boxes
    ]
    assert [(f["before"], f["after"], f["bytes"]) for f in document["flows"]] == [
        (flow.before, flow.after, flow.bytes) for flow in shown.flows
    ]
    text = explain("--layers")
    assert all(box.layer in text and box.phase in text for box in shown.boxes)
