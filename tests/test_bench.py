"""What `make bench` writes: the numbers it draws from rows, and the graphs it makes up."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import __main__ as report_of
from bench import compile as matrix
from bench import scaling
from bench.cells import AT_BEST, OURS, Row, compile_cell, load_problem
from bench.loglog import Panel, svg_of
from bench.synthetic import synthetic_training
from bench.tables import csv_text, matrix_table, summary
from hyperoffload_core.graphfile import GraphFile, write_graph
from hyperoffload_core.ir import check_graph

CELL = Row("demo", "gh200", "50%", OURS, "met", step_ns=104, bound_ns=100, compile_s=0.25)
RIVAL = replace(CELL, strategy="reactive", step_ns=130)


def test_the_summary_counts_cells_near_the_bound_and_cells_not_beaten() -> None:
    far = replace(CELL, limit="35%", step_ns=120)
    text = "\n".join(summary([CELL, RIVAL, far, replace(far, strategy="reactive", step_ns=110)]))
    assert "Of 2 cells 2 are feasible" in text
    assert "In 1 of 2 it is at least as fast" in text
    assert "within 3 % of the bound in 0 and within 10 % in 1" in text
    assert "- demo, gh200, 35%: 20.0% (0.0 ms)" in text
    assert "- demo, gh200, 35%: reactive is 9.1% faster" in text


def test_what_more_effort_gains_is_said_beside_and_beats_nobody() -> None:
    best = replace(CELL, strategy=AT_BEST, step_ns=102, compile_s=21.0)
    text = "\n".join(summary([CELL, RIVAL, best]))
    assert "within 3 % of the bound in 0 and within 10 % in 1" in text
    assert "With effort best in the 1 cells further from the bound it is within 3 % in 1" in text
    assert "In 1 of 1 it is at least as fast" in text
    assert AT_BEST not in "\n".join(matrix_table([CELL, RIVAL, best]))


def test_a_faster_strategy_that_misses_the_limit_beats_nobody() -> None:
    over = replace(RIVAL, step_ns=50, outcome="over", over_bytes=3 << 30)
    assert "In 1 of 1 it is at least as fast" in "\n".join(summary([CELL, over]))
    assert matrix_table([CELL, over])[-1] == "| gh200 | 50% | 0.0 | 1.040 | 0.25 | over 3.0 GiB |"


def test_infeasible_and_invalid_cells_are_said() -> None:
    infeasible = replace(CELL, limit="35%", outcome="infeasible", note="the smallest feasible limit is 7 GiB")
    invalid = replace(RIVAL, outcome="invalid", note="store: too early")
    text = "\n".join(summary([CELL, invalid, infeasible]))
    assert "1 infeasible" in text
    assert "- demo, gh200, 35%: the smallest feasible limit is 7 GiB" in text
    assert "- demo, gh200, 50%, reactive: store: too early" in text


def test_the_csv_holds_every_field_of_every_row() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text([CELL, RIVAL]))))
    assert [r["strategy"] for r in rows] == [OURS, "reactive"]
    assert rows[1]["step_ns"] == "130"


def test_a_cell_that_cannot_be_met_is_a_row_with_the_smallest_limit(tmp_path: Path) -> None:
    write_graph(GraphFile(synthetic_training(60)), tmp_path / "made-up.json.gz")
    problem = load_problem("made-up", "gh200", tmp_path)
    met, infeasible = compile_cell(problem, "90%", "reactive"), compile_cell(problem, "1MiB", "reactive")
    assert met.outcome == "met"
    assert met.step_ns >= met.bound_ns > 0
    assert met.reserved_bytes <= met.limit_bytes
    assert infeasible.outcome == "infeasible"
    assert infeasible.smallest_bytes > infeasible.limit_bytes


def test_unknown_hardware_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_graph(GraphFile(synthetic_training(60)), tmp_path / "demo.json.gz")
    arguments = ["--graphs", str(tmp_path), "--workload", "demo", "--hardware", "h1", "--strategy", OURS]
    assert matrix.main(arguments) == 2
    assert capsys.readouterr().err.startswith("no hardware is called 'h1'")


@pytest.mark.parametrize("op_count", [1, 1000])
def test_a_made_up_training_step_is_a_sound_graph_and_always_the_same(op_count: int) -> None:
    graph = synthetic_training(op_count)
    check_graph(graph)
    assert abs(len(graph.ops) - op_count) < 60
    assert graph.hash == synthetic_training(op_count).hash
    assert {o.phase for o in graph.ops} == {"forward", "backward", "optimizer"}


def test_a_made_up_step_of_thousands_of_ops_that_waits_for_links_is_planned_near_its_bound() -> None:
    measured = scaling.measure(2000, "h100-pcie5", "35%")
    assert measured.bound_ns <= measured.step_ns <= 1.05 * measured.bound_ns


def test_the_picture_has_every_point_inside() -> None:
    svg = ElementTree.fromstring(svg_of([Panel("time", "ops", [(1000, 0.5), (30_000, 20)], (100_000, 30), "target")]))
    points = svg.findall(".//{*}circle")
    assert len(points) == 2
    width, height = float(svg.get("width", 0)), float(svg.get("height", 0))
    assert all(0 < float(p.get("cx", 0)) < width and 0 < float(p.get("cy", 0)) < height for p in points)


def test_a_section_measured_again_leaves_the_others_as_they_are() -> None:
    first, second, *_ = report_of.SECTIONS
    text = report_of.report({first.title: "`python -m bench.demo` today\n\n| 1 |", second.title: "`python -m x`\n\n2"})
    measured = report_of.measured_before(text)
    assert measured == {first.title: "`python -m bench.demo` today\n\n| 1 |", second.title: "`python -m x`\n\n2"}
    again = report_of.report({**measured, second.title: "`python -m x`\n\n3"})
    assert again == text.replace("\n2\n", "\n3\n")
    assert report_of.SECTIONS[0].words.split()[0] in text


def test_every_section_is_a_measurement_that_is_there_and_has_words() -> None:
    folder = Path(__file__).parent.parent / "bench"
    assert [s.name for s in report_of.SECTIONS if not (folder / f"{s.name}.py").exists() or not s.words] == []
