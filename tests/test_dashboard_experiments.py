"""The page of experiments: the report as it was written, the matrix as plots, a person's own runs as the same plot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dashboard_example import example_profile, example_schedule
from plotly.utils import PlotlyJSONEncoder

from app.dashboard.factory import NAVIGATION, create_app
from app.dashboard.pages import experiments
from app.dashboard.views.experiments import grid_of, heat_rows, limit_figure, ranked, usual_strategies
from app.dashboard.views.experiments_address import ExperimentsAsked, address, asked_for
from app.experiments import Cell, Listing, Point, Prose, Table, find_sweeps, points_of_cells, read_cells, read_sections
from db.database import open_database
from db.queries import list_runs
from db.recordings import RunDescription, record_profile
from hyperoffload_core.schedule import Schedule

GIB = 1024**3


def cell(strategy: str, limit: str, outcome: str, step: int, bound: int = 100, over: int = 0) -> Cell:
    size = int(limit.rstrip("%")) * GIB
    return Cell("w", "box", limit, strategy, outcome, size, over, step, bound, 0, 0, 0, 0, 0, 0.1, "a note")


CELLS = [
    cell("reactive", "50%", "over", 150, over=GIB),
    cell("reactive", "90%", "met", 160),
    cell("hyperoffload", "50%", "met", 101),
    cell("hyperoffload", "90%", "met", 100),
    cell("none", "90%", "infeasible", 0, 0),
]


def test_the_report_is_read_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "benchmarks.md").write_text(
        "# Benchmarks\n\n## One, measured\n\n`python -m bench.one` on a machine\n\n"
        "See [the file](x.csv): **no** link.\n\n"
        "### Part\n\n| a | b |\n|---|--:|\n| x | 1,027 |\n| y |\n\n```\nraw | text\n```\n\n## Two\n\n![gone](no.svg)\n"
    )
    one, two = read_sections(tmp_path)
    assert (one.name, one.title, one.origin) == ("one-measured", "One, measured", "python -m bench.one on a machine")
    assert one.blocks[0] == ("", (Prose("See the file: **no** link."),))
    heading, (table, listing) = one.blocks[1]
    assert heading == "Part"
    assert table == Table(("a", "b"), (False, True), (("x", "1,027"), ("y", "")))
    assert listing == Listing("raw | text")
    assert two.blocks == (("", (Prose("!gone"),)),)


def test_a_program_without_its_repository_has_no_report(tmp_path: Path) -> None:
    assert (read_sections(tmp_path), read_cells(tmp_path)) == ((), ())


def test_what_this_repository_holds_can_be_read() -> None:
    """The files that `make bench` writes: whatever is in them, every row has its numbers."""
    cells = read_cells()
    assert {"demo", "llama3-8b-train"} <= {c.workload for c in cells}
    assert all(c.step_ns >= c.compile_s >= 0 and c.limit_bytes > 0 for c in cells if c.outcome == "met")
    sections = read_sections()
    assert all("python -m bench." in s.origin for s in sections)
    assert len({s.name for s in sections}) == len(sections) > 3


def test_numbers_of_a_table_sort_as_numbers_and_show_as_written() -> None:
    table = Table(("name", "size", "mixed"), (False, True, True), (("a", "1,027", "over 5 MiB"), ("b", "9", "1.25")))
    columns, rows = grid_of(table)
    assert [r["c1"] for r in rows] == [1027.0, 9.0]
    assert [r["t1"] for r in rows] == ["1,027", "9"]
    assert [r["c2"] for r in rows] == [None, 1.25]
    assert "valueFormatter" not in columns[0] and columns[1]["valueFormatter"] == {"function": "params.data.t1"}


def test_a_line_goes_through_what_meets_the_limit_and_crosses_mark_the_rest() -> None:
    figure = limit_figure(points_of_cells(CELLS), ["hyperoffload", "reactive"])
    ours, met, over, bound = figure["data"]
    assert (ours["name"], ours["x"], ours["mode"]) == ("hyperoffload", [50, 90], "lines+markers")
    assert ours["y"] == [101, 100]
    assert (met["x"], over["x"], over["mode"]) == ([90], [50], "markers")
    assert "over it by 1.00 GiB" in over["text"][0]
    assert (bound["name"], bound["y"]) == ("lower bound", [100, 100])
    # Ours at 90 lies on the bound, and a click there is to open the run.
    assert bound["hoverinfo"] == "skip"
    assert ours["line"]["color"] != met["line"]["color"] == over["marker"]["color"]


def test_steps_far_apart_are_shown_on_a_logarithmic_axis() -> None:
    def axis(longest: int) -> dict[str, Any]:
        points = [Point("a", "predicted", GIB, ns, 0, True, "") for ns in (10, longest)]
        return limit_figure(points, ["a"])["layout"]["yaxis"]

    assert "type" not in axis(30)
    assert axis(90)["type"] == "log"


def test_strategies_that_meet_more_limits_come_first_and_ours_before_all() -> None:
    assert ranked(CELLS) == ["hyperoffload", "reactive", "none"]
    assert usual_strategies(CELLS) == ["hyperoffload", "reactive"]


def test_the_heat_table_says_how_far_above_the_bound() -> None:
    rows = heat_rows(CELLS, ["hyperoffload", "reactive", "none"])
    assert [(r.limit, [c.text for c in r.cells]) for r in rows] == [
        ("50%", ["1.01", "over", ""]),
        ("90%", ["1.00", "1.60", "infeasible"]),
    ]
    assert [c.shade for c in rows[1].cells] == [0, 4, None]


def test_what_the_page_shows_is_its_address() -> None:
    known = {"show": ["limits", "runs"], "workload": ["w"], "hardware": ["a", "b"], "strategy": ["x", "y"], "graph": []}
    asked = asked_for({"hardware": "b", "strategies": "y,<b>", "show": "nowhere"}, known)
    assert asked == ExperimentsAsked("limits", "w", "b", ("y",), "")
    assert address(asked) == "/experiments?show=limits&workload=w&hardware=b&strategies=y"
    assert address(ExperimentsAsked("runs", graph="g")) == "/experiments?show=runs&graph=g"


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Render the page over a database in which one graph has three runs and another has one."""
    database = open_database(tmp_path / "experiments.db")
    for layers, op_ns, kind in ((8, 12_000_000, "measured"), (8, 15_000_000, "predicted"), (4, 9_000_000, "predicted")):
        schedule = example_schedule(layers, op_ns)
        for strategy in ("reactive", "none") if kind == "measured" else ("reactive",):
            varied = schedule if strategy == "reactive" else with_strategy(schedule, strategy)
            record_profile(database, RunDescription(kind, varied, "example"), example_profile(varied, kind))  # type: ignore[arg-type]
    database.close()
    app = create_app(tmp_path / "experiments.db")

    def asked(**query: str) -> str:
        with app.server.app_context():
            return json.dumps(experiments.layout(**query), cls=PlotlyJSONEncoder)

    yield asked
    app.server.config["HYPEROFFLOAD"].database.close()


def with_strategy(schedule: Schedule, strategy: str) -> Schedule:
    return replace(schedule, strategy=strategy, policy={**schedule.policy, "strategy": strategy})


def test_own_runs_of_one_graph_are_a_plot(ask: Callable[..., str]) -> None:
    page = ask(show="runs")
    assert "example on example, 3 runs" in page
    assert "reactive (measured)" in page and "reactive (predicted)" in page
    assert "Measured and predicted on example" in page
    assert "/compare?runs=" in page


def test_only_graphs_with_something_to_set_against_each_other_are_sweeps(tmp_path: Path) -> None:
    database = open_database(tmp_path / "one.db")
    schedule = example_schedule()
    for _ in range(2):
        record_profile(database, RunDescription("predicted", schedule, "example"), example_profile(schedule))
    assert find_sweeps(list_runs(database)) == []
    database.close()


def test_the_matrix_opens_first_and_every_experiment_is_a_link(ask: Callable[..., str]) -> None:
    page = ask(workload="llama3-8b-train", hardware="gh200")
    assert '"value": "llama3-8b-train"' in page and '"value": "gh200"' in page
    assert "Predicted, on hardware descriptions: python -m bench.compile" in page
    for section in read_sections():
        assert f"/experiments?show={section.name}" in page
        assert section.origin in ask(show=section.name)


def test_without_a_report_the_page_says_how_to_make_it(
    ask: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(experiments, "read_sections", lambda: read_sections(tmp_path))
    monkeypatch.setattr(experiments, "read_cells", lambda: read_cells(tmp_path))
    page = ask()
    assert "make bench" in page and "example on example, 3 runs" in page
    monkeypatch.setattr(experiments, "recorded_sweeps", lambda _: [])
    assert "hyperoffload compile MODEL" in ask()


def test_the_page_is_in_the_navigation() -> None:
    assert "/experiments" in [href for href, _, _ in NAVIGATION]
