"""What the Tune page does, on the command line: `sweep` and `policies`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from app.cli.main import run
from app.policies import save_version
from db.database import open_database
from hyperoffload_core.graphfile import GraphFile, write_graph
from hyperoffload_core.policy import Policy, Rule, read_policy
from hyperoffload_core.schedule import read_schedule
from hyperoffload_core.sizes import format_bytes
from tests.graphs import training


@pytest.fixture
def graph(tmp_path: Path) -> str:
    file = tmp_path / "graph.json"
    write_graph(GraphFile(training(4, 1 << 20)), file)
    return str(file)


@pytest.fixture
def database(tmp_path: Path) -> str:
    """Policy night: version 1 with a limit of 60%, version 2 with 45% and a rule."""
    opened = open_database(tmp_path / "runs.db")
    save_version(opened, Policy(name="night", memory_limit="60%"))
    rule = Rule(tensor_class="weight", action="keep")
    save_version(opened, Policy(name="night", memory_limit="45%", rules=(rule,)))
    opened.close()
    return str(tmp_path / "runs.db")


def test_a_sweep_is_a_table_and_a_file(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "points.csv"
    asked = ["sweep", graph, "--limits", "100%,70%", "--strategies", "hyperoffload,none", "--hardware", "h200"]
    assert run([*asked, "--csv", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "predicted, effort fast" in shown
    assert "over the limit by" in shown
    rows = list(csv.DictReader(file.open()))
    assert [(row["strategy"], row["problem"]) for row in rows] == [("hyperoffload", "")] * 2 + [("none", "")] * 2
    assert all(int(row["step_ns"]) >= int(row["lower_bound_ns"]) for row in rows[:2])
    assert run([*asked, "--csv", str(file)]) == 2
    assert "add --force" in capsys.readouterr().err


def test_a_sweep_takes_the_rules_of_a_policy_and_names_what_cannot_be_met(
    graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "keep.toml"
    policy.write_text('[[rules]]\nclass = "weight"\naction = "keep"\n')
    asked = ["sweep", graph, "--limits", "90%,2%", "--strategies", "reactive", "--policy", str(policy), "--json"]
    assert run([*asked, "--hardware", "h200"]) == 0
    points = json.loads(capsys.readouterr().out)
    assert [point["step_ns"] is None for point in points] == [False, True]
    assert "the smallest feasible limit is" in points[1]["problem"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--limits", "much"], "'much' is neither a size nor a share"),
        (["--limits", ","], "is an empty list"),
        (["--strategies", "fastest"], "there is no strategy 'fastest'"),
    ],
)
def test_wrong_lists_are_one_sentence(
    graph: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", graph, *arguments]) == 2
    assert words in capsys.readouterr().err.replace("\n", " ")


def test_numbers_of_the_hardware_are_changed_as_on_the_page(
    graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = ["memory=32GiB", "link.in=20 GB/s", "compute.flops_per_s=200 TFLOPS", "link.latency_ns=7"]
    numbers = [word for number in changed for word in ("--hardware-number", number)]
    file = tmp_path / "schedule.json"
    compiled = ["compile", graph, "--link-bandwidth", "9GB/s", *numbers, "--strategy", "none", "--output", str(file)]
    assert run([*compiled, "-d", str(tmp_path / "runs.db")]) == 0
    planned = read_schedule(file).hardware
    assert (planned.device_bytes, planned.link_out.bytes_per_s, planned.link_in.bytes_per_s) == (
        32 << 30,
        9 * 10**9,
        20 * 10**9,
    )
    assert planned.link_in.latency_ns == 7
    capsys.readouterr()
    steps = []
    for asked in ([], ["--hardware-number", "compute.op_overhead_ns=1000000"]):
        assert run(["sweep", graph, "--limits", "100%", "--strategies", "none", "--json", *asked]) == 0
        steps.append(json.loads(capsys.readouterr().out)[0]["step_ns"])
    assert steps[1] - steps[0] > 500_000 * len(training(4, 1 << 20).ops)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        ("link.in", "--hardware-number 'link.in' is not NAME=VALUE"),
        ("name=mine", "no hardware number is called 'name'; they are memory, link.out,"),
        ("link.latency_ns=soon", "link.latency_ns: 'soon' is not a number"),
        ("link.duplex=both", 'link.duplex is \'both\'; write "full" or "half"'),
        ("compute.flops_efficiency=2", "compute.flops_efficiency is 2.0; write a number above 0 and up to 1"),
    ],
)
def test_a_wrong_number_of_the_hardware_is_one_sentence(
    graph: str, number: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", graph, "--hardware-number", number]) == 2
    assert says in capsys.readouterr().err


def test_a_compile_says_what_each_rule_matches(graph: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "rules.toml"
    policy.write_text(
        'strategy = "none"\n[[rules]]\nclass = "weight"\naction = "keep"\n[[rules]]\nname = "*"\naction = "auto"\n'
    )
    asked = ["compile", graph, "--policy", str(policy), "-d", str(tmp_path / "runs.db")]
    assert run(asked) == 0
    storages = training(4, 1 << 20).storages
    weights = [s.bytes for s in storages if s.tensor_class == "weight"]
    assert (
        f"matches {len(weights)} of {len(storages)} storages, {format_bytes(sum(weights))}\n" in capsys.readouterr().out
    )
    assert run([*asked, "--json"]) == 0
    rules = json.loads(capsys.readouterr().out)["rules"]
    assert [(rule["storages"], rule["bytes"]) for rule in rules] == [
        (len(weights), sum(weights)),
        (len(storages), sum(s.bytes for s in storages)),
    ]


def test_policies_are_listed_shown_and_written(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["policies", "list", "-d", database]) == 0
    assert "night" in capsys.readouterr().out
    assert run(["policies", "list", "night", "--json", "-d", database]) == 0
    assert [v["version"] for v in json.loads(capsys.readouterr().out)] == [2, 1]
    assert run(["policies", "show", "night", "--version", "1", "-d", database]) == 0
    assert 'memory_limit = "60%"' in capsys.readouterr().out
    file = tmp_path / "night.toml"
    assert run(["policies", "show", "night", "--output", str(file), "-d", database]) == 0
    assert read_policy(file).memory_limit == "45%"


def test_versions_differ_and_an_older_one_comes_back(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policies", "diff", "night", "1", "-d", database]) == 0
    shown = capsys.readouterr().out
    assert '-memory_limit = "60%"' in shown
    assert '+memory_limit = "45%"' in shown
    assert run(["policies", "restore", "night", "1", "-d", database]) == 0
    assert "version 1 of night is now version 3" in capsys.readouterr().out
    assert run(["policies", "diff", "night", "1", "3", "-d", database]) == 0
    assert "say the same" in capsys.readouterr().out
    assert run(["policies", "restore", "night", "3", "-d", database]) == 0
    assert "already says the same" in capsys.readouterr().out


def test_unknown_policies_and_versions_say_what_there_is(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policies", "show", "day", "-d", database]) == 2
    assert "saved policies: night" in capsys.readouterr().err
    assert run(["policies", "diff", "night", "7", "-d", database]) == 2
    assert "has versions 1 to 2" in capsys.readouterr().err
