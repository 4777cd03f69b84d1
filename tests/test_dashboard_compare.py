"""The compare page: what its address says, its charts along time and along ops, its tables."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dash import html
from dashboard_example import example_profile, example_schedule
from plotly.utils import PlotlyJSONEncoder

from app.dashboard.factory import create_app
from app.dashboard.pages import compare
from app.dashboard.pages.compare_tables import MOST_ROWS, UNSCROLLED_ROWS, plain_table, table_of
from app.dashboard.views import comparing, comparing_ops
from app.dashboard.views.comparing_address import CompareAsked, asked_for
from app.dashboard.views.step import StepView
from db.database import open_database
from db.recordings import RunDescription, record_profile
from hyperoffload_core.sizes import format_ns
from profiles.compare import compare as compare_profiles
from profiles.comparison import LabelledProfile

HOSTILE = '<img src=x onerror="alert(1)">\u202e\x07'


def numbers(packed: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(packed["bdata"]), dtype={"f8": np.float64}[packed["dtype"]])


@pytest.fixture(scope="module")
def compared() -> comparing.Compared:
    """A run, and one that is slower and has fewer layers."""
    views = (example_profile(example_schedule(8), "measured"), example_profile(example_schedule(8, 25_000_000)))
    return comparing.Compared(("fast", "slow %{y}"), tuple(StepView(v) for v in views))


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Render the page over a database with three runs, one of them with a hostile name."""
    database = open_database(tmp_path / "compare.db")
    for kind, op_ns, label in (
        ("measured", 12_000_000, ""),
        ("predicted", 25_000_000, ""),
        ("predicted", 9_000_000, HOSTILE),
    ):
        schedule = example_schedule(8, op_ns)
        description = RunDescription(kind, schedule, "example", label=label)  # type: ignore[arg-type]
        record_profile(database, description, example_profile(schedule, kind, 2 if kind == "measured" else 1))  # type: ignore[arg-type]
    database.close()
    app = create_app(tmp_path / "compare.db")

    def asked(**query: str) -> str:
        with app.server.app_context():
            return json.dumps(compare.layout(**query), cls=PlotlyJSONEncoder)

    yield asked
    app.server.config["HYPEROFFLOAD"].database.close()


def test_what_an_address_says_wrongly_is_left_to_the_page() -> None:
    assert asked_for([4, 5], "9", "<b>", "sideways", "") == CompareAsked((4, 5), 4)
    assert asked_for([4, 5], "5", "storages", "op", "op") == CompareAsked((4, 5), 5, "storages", "op", "op")
    assert asked_for([], "1" * 400, None, None, None) == CompareAsked()


def test_lines_along_ops_lie_over_each_other_and_keep_the_peak(compared: comparing.Compared) -> None:
    drawn = list(comparing_ops.traces(compared, comparing_ops.whole(compared)))
    memory, late = drawn[:2], drawn[2]
    assert numbers(memory[0]["x"]).tolist() == numbers(memory[1]["x"]).tolist()
    for trace, view in zip(memory, compared.views, strict=True):
        assert numbers(trace["y"]).max() * compared.unit[1] == pytest.approx(view.curve.peak[1])
        assert trace["text"] == [op.name for op in view.profile.schedule.graph.ops]
    # The slow run ends later than the fast one by what its step is longer, copies at the end left out.
    ends = [int(view.lanes.compute.end_ns.max()) for view in compared.views]
    assert numbers(late["y"])[-1] == pytest.approx((ends[1] - ends[0]) / 1e6)
    assert "%{y}" not in late["hovertemplate"].replace("%{y:", "")


def test_lanes_along_ops_have_a_bar_at_the_place_of_each_op_and_copies_beside_them(
    compared: comparing.Compared,
) -> None:
    drawn = list(comparing_ops.traces(compared, comparing_ops.whole(compared)))
    bars = [t for t in drawn if t["type"] == "bar"]
    assert [t["name"].partition(" (")[0] for t in bars] == ["Compute", "Copy in", "Copy out"] * 2
    for view, course, own in zip(compared.views, compared.by_op.courses, (bars[:3], bars[3:]), strict=True):
        compute, *copies = own
        left, width = numbers(compute["base"]), numbers(compute["x"])
        assert (left + width / 2).tolist() == pytest.approx(course.place.tolist())
        assert width.tolist() == pytest.approx([0.8] * len(width))
        # Beside a bar stand the real times of its op.
        first = compute["customdata"][0][2]
        assert format_ns(view.times["op"][first][1] - view.times["op"][first][0]) in compute["hovertext"][0]
        for trace in copies:
            begin, length = numbers(trace["base"]), numbers(trace["x"])
            for (_, _, transfer), low, high in zip(trace["customdata"], begin, begin + length, strict=True):
                start, end = view.times["transfer"][transfer]
                inside = [i for i, (b, e) in enumerate(zip(*_edges(view), strict=True)) if b < end and e > start]
                # Of the ops that run beside the copy its bar reaches the first and the last, and no other.
                if not inside:
                    assert high - low <= 0.2 + 1e-6
                    continue
                assert low < course.place[inside[0]] + 0.4 and high > course.place[inside[-1]] - 0.4
                assert low >= course.place[inside[0]] - 0.6 and high <= course.place[inside[-1]] + 0.6


def _edges(view: StepView) -> tuple[list[int], list[int]]:
    return view.lanes.compute.start_ns.tolist(), view.lanes.compute.end_ns.tolist()


def test_a_zoom_along_ops_gives_the_same_lines_with_what_is_in_view(compared: comparing.Compared) -> None:
    near = list(comparing_ops.traces(compared, (10.0, 12.0)))
    assert len(near) == len(list(comparing_ops.traces(compared, comparing_ops.whole(compared))))
    x = numbers(near[0]["x"])
    assert x.min() <= 10 and x.max() >= 12 and len(x) < 8
    change = {"xaxis.range[0]": 10.0, "xaxis.range[1]": 12.0}
    assert comparing_ops.asked_window(change, compared) == (10.0, 12.0)
    assert comparing_ops.asked_window({"xaxis.autorange": True}, compared) == comparing_ops.whole(compared)
    assert comparing_ops.asked_window({"dragmode": "pan"}, compared) is None


def test_a_change_of_axis_does_not_keep_the_range_of_the_other(compared: comparing.Compared) -> None:
    by_time = comparing.figure(compared, (0, compared.end_ns))["layout"]
    by_op = comparing_ops.figure(compared, comparing_ops.whole(compared))["layout"]
    assert by_time["uirevision"] != by_op["uirevision"]


def test_the_page_says_everything_of_two_runs_and_offers_the_third(ask: Callable[..., str]) -> None:
    page = ask(runs="1,2", baseline="2", axis="op", tab="time")
    assert "Some of these profiles were measured and some predicted" in page
    assert "Make run 1 the baseline" in page and "Take run 2 out of the comparison" in page
    assert '"value": "3"' in page
    assert "ops in the order of #2" in page
    assert '"value": "time"' in page
    for name in ("HTML report", "Markdown", "CSV", "JSON", "SVG"):
        assert name in page
    assert '"filename": "hyperoffload-compare-1-2"' in page


def test_runs_that_are_not_whole_or_not_to_stay_say_so(ask: Callable[..., str], tmp_path: Path) -> None:
    database = open_database(tmp_path / "compare.db")
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE run SET status = 'incomplete' WHERE id = 2")
        connection.exec_driver_sql("UPDATE run SET deleted = '2026-01-01 00:00:00' WHERE id = 1")
    database.close()
    page = ask(runs="1,2,77")
    assert "Run 2 is incomplete; the steps it has are compared." in page
    assert "Run 1 is deleted and will be gone for good" in page
    assert "There is no run 77; it is left out." in page


def test_the_verdict_on_many_runs_has_a_line_for_each(ask: Callable[..., str], tmp_path: Path) -> None:
    schedule = example_schedule(8)
    with closing(open_database(tmp_path / "compare.db")) as database:
        record_profile(database, RunDescription("predicted", schedule, "example"), example_profile(schedule))
    few, many = ask(runs="1,2,3"), ask(runs="1,2,3,4")
    lines = [page[: page.index("compare-note")].count('"type": "Li"') for page in (few, many)]
    assert lines == [0, 4]  # the last says that the kinds differ


def test_hostile_names_are_text_on_the_page(ask: Callable[..., str]) -> None:
    for axis in ("time", "op"):
        page = ask(runs="1,3", axis=axis)
        assert "\\u202e" not in page and "\\u0007" not in page
        figure = page[page.index('"figure"') : page.index('"compare-tab"')]
        assert "&lt;img" in figure and "<img" not in figure


def test_tables_show_the_largest_rows_and_say_how_many_there_are() -> None:
    first = example_profile(example_schedule(8))
    graph = first.schedule.graph
    many = tuple(replace(graph.ops[0], id=i, name=f"op{i:05}", after=()) for i in range(MOST_ROWS + 50))
    ops = np.arange(len(many), dtype=np.int64)
    events = replace(first.ops, step=ops * 0, op=ops, start_ns=ops * 10, end_ns=ops * 10 + 5, copy_ns=ops * 0)
    schedule = replace(
        first.schedule, graph=replace(graph, ops=many), op_times=(), transfers=(), durations_ns=(5,) * len(many)
    )
    moved = first.transfers
    nothing = replace(moved, **{name: getattr(moved, name)[:0] for name in moved.__dataclass_fields__})
    profile = replace(first, ops=events, schedule=schedule, transfers=nothing)
    comparison = compare_profiles([LabelledProfile("a", profile, 1), LabelledProfile("b", profile, 2)])
    grid, words = table_of(comparison, "time", "op", "")
    assert len(grid.rowData) == MOST_ROWS
    assert f"of {len(many):,} rows" in words.children
    (layers,) = table_of(comparison, "time", "layer", "abc")
    assert layers.dashGridOptions["quickFilterText"] == "abc"


def test_a_list_that_is_scrolled_says_how_long_it_is() -> None:
    for count, title in (
        (UNSCROLLED_ROWS, "Policies"),
        (UNSCROLLED_ROWS + 1, f"Policies ({UNSCROLLED_ROWS + 1} rows)"),
    ):
        heading, _ = plain_table("Policies", ("a",), [html.Tr(html.Td("x"))] * count, 1).children
        assert heading.children == title


def test_every_tab_has_a_table_or_says_that_nothing_differs() -> None:
    items = [LabelledProfile("a", example_profile(example_schedule(8)), 1)] * 2
    same = compare_profiles(items)
    for tab, words in (
        ("decisions", "Every storage is in the same place"),
        ("storages", "same part of the step"),
        ("transfers", "in the same way"),
    ):
        assert words in json.dumps(table_of(same, tab, "op", ""), cls=PlotlyJSONEncoder)  # type: ignore[arg-type]


@pytest.mark.parametrize("axis", ["time", "op"])
def test_the_chart_says_by_itself_which_line_is_whose(compared: comparing.Compared, axis: str) -> None:
    """What the camera saves is the chart alone, without the legend above it."""
    if axis == "time":
        figure = comparing.figure(compared, (0, compared.end_ns))
    else:
        figure = comparing_ops.figure(compared, comparing_ops.whole(compared))
    layout = figure["layout"]
    samples = {shape["y0"]: shape["line"] for shape in layout["shapes"] if shape["yref"] == "y2"}
    names = {note["y"]: note["text"] for note in layout["annotations"] if note["yref"] == "y2"}
    curves = [trace["line"] for trace in figure["data"] if trace.get("yaxis", "y") == "y" and "line" in trace]
    for number, name in enumerate(("fast", "slow")):
        (place,) = (at for at, text in names.items() if name in text)
        for key in ("color", "dash"):
            assert samples[place][key] == curves[number][key]
    assert len({(line["color"], line["dash"]) for line in samples.values()}) == 2
