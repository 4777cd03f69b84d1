"""The graph page: the scheduled graph against naive searches of the schedule, layouts, words, addresses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qsl, unquote

import dash
import pytest
from dashboard_example import MIB, example_graph, example_profile, example_schedule
from plotly.utils import PlotlyJSONEncoder
from profiles_samples import ACT, WEIGHT, offload_schedule, profile_of

from app.dashboard.factory import create_app
from app.dashboard.pages import graph
from app.dashboard.views import graph_details, graph_found, graph_query
from app.dashboard.views.graph_boxes import Around, centre_of, drawing
from app.dashboard.views.graph_details import Page, Way
from app.dashboard.views.graph_layers import layers_of
from app.dashboard.views.graph_layout import BOX_HEIGHT, BOX_WIDTH, MOST_NODES, laid_out, layered, region
from app.dashboard.views.graph_links import Links, Node, Stage
from app.dashboard.views.graph_overview import HEIGHT, WIDTH, overview
from app.dashboard.views.graph_query import Asked, asked_of
from app.dashboard.views.step import StepView
from db.database import open_database
from db.recordings import RunDescription, record_profile
from hyperoffload_core.errors import UserError
from hyperoffload_core.ir import Graph, Op, Storage, dependencies
from hyperoffload_core.schedule import Residency, Schedule, Transfer

HOSTILE = '<img src=x onerror="alert(1)">\u202e\x07' + "x" * 10_000


@pytest.fixture(scope="module")
def links() -> Links:
    return Links(example_schedule())


@pytest.fixture(scope="module")
def view() -> StepView:
    return StepView(example_profile(example_schedule(), "measured"))


def every_node(links: Links) -> list[Node]:
    ops: list[Node] = [("op", op.id) for op in links.schedule.graph.ops]
    moves: list[Node] = [("transfer", first) for first in links.moves]
    return [*ops, *moves, *(("detach", n) for n in range(len(links.detaches)))]


def every_edge(links: Links, stage: Stage) -> set[tuple[Node, Node]]:
    return {
        (before, node) for node in every_node(links) if links.has(node, stage) for before in links.before(node, stage)
    }


def dropped() -> Schedule:
    """The weight lives in the pool, comes in before op 0, is dropped after op 1 and is not needed again."""
    schedule = offload_schedule()
    fetch = Transfer(2, "prefetch", WEIGHT, 1000, 0, 50, (), ())
    times = list(schedule.op_times)
    times[0] = replace(times[0], waits=(2,))
    stays = tuple(r for r in schedule.residencies if r.storage != WEIGHT)
    return replace(
        schedule,
        homes=("pool", *schedule.homes[1:]),
        transfers=(*schedule.transfers, fetch),
        residencies=(*stays, Residency(WEIGHT, 0, 0, 200)),
        op_times=tuple(times),
    )


def test_captured_neighbours_are_the_dependencies_of_the_graph(links: Links) -> None:
    wanted = {(("op", a), ("op", op.id)) for op in links.schedule.graph.ops for a in op.after}
    assert every_edge(links, "captured") == wanted


def test_scheduled_neighbours_are_those_and_every_wait_of_the_schedule(links: Links) -> None:
    schedule = links.schedule
    waits = {(("transfer", w), ("op", t.op)) for t in schedule.op_times for w in t.waits}
    starts = {(("op", op), ("transfer", t.id)) for t in schedule.transfers for op in t.after_ops}
    chained = {(("transfer", o), ("transfer", t.id)) for t in schedule.transfers for o in t.after_transfers}
    assert every_edge(links, "scheduled") == every_edge(links, "captured") | waits | starts | chained


def test_neighbours_in_one_direction_are_those_in_the_other() -> None:
    for schedule in (example_schedule(), dropped()):
        links = Links(schedule)
        for stage in ("captured", "scheduled"):
            forth = {(n, after) for n in every_node(links) if links.has(n, stage) for after in links.after(n, stage)}
            # What comes back after a Detach waits for nothing of it: that edge is drawn, not waited for.
            back = every_edge(links, stage) | {
                (("detach", n), d.before) for n, d in enumerate(links.detaches) if d.before and stage == "scheduled"
            }
            assert forth == back


def test_a_copy_that_is_dropped_without_a_transfer_is_a_detach() -> None:
    links = Links(dropped())
    (detach,) = links.detaches
    assert (detach.storage, detach.time_ns, detach.after, detach.before) == (WEIGHT, 200, ("op", 1), None)
    assert Links(offload_schedule()).detaches == ()


def test_a_detach_between_two_stays_comes_before_what_brings_it_back() -> None:
    schedule = dropped()
    back = Transfer(3, "prefetch", WEIGHT, 1000, 300, 350, (2,), ())
    stays = (*schedule.residencies, Residency(WEIGHT, 0, 300, 420))
    again = Links(replace(schedule, transfers=(*schedule.transfers, back), residencies=stays))
    assert [(d.time_ns, d.before) for d in again.detaches] == [(200, ("transfer", 3)), (420, None)]
    assert ("transfer", 3) in set(again.after(("detach", 0), "scheduled"))


def test_the_parts_of_a_move_are_one_node() -> None:
    schedule = offload_schedule()
    store, fetch = schedule.transfers
    halves = (
        replace(fetch, bytes=100, end_ns=245, partial=True),
        replace(
            fetch, id=2, bytes=300, start_ns=245, partial=True, offset_bytes=100, after_ops=(1,), after_transfers=()
        ),
    )
    times = tuple(replace(t, waits=(1, 2)) if t.op == 3 else t for t in schedule.op_times)
    links = Links(replace(schedule, transfers=(store, *halves), op_times=times))
    assert list(links.moves) == [0, 1]
    assert list(links.before(("op", 3), "scheduled")) == [("op", 0), ("op", 2), ("transfer", 1)]
    assert list(links.before(("transfer", 1), "scheduled")) == [("op", 1), ("transfer", 0)]
    view = StepView(profile_of(links.schedule))
    drawn = drawing(view.links, view, Around("storage", ACT), 0, "scheduled")
    assert [b.label.note for b in drawn.boxes if b.label.look == "prefetch"] == ["400 B in 2 parts in 100 ns predicted"]


def test_recomputed_ops_are_in_the_scheduled_graph_only() -> None:
    graph = example_graph(2)
    again = replace(graph.ops[0], id=len(graph.ops), recompute_of=0)
    links = Links(replace(example_schedule(2), graph=replace(graph, ops=(*graph.ops, again))))
    node: Node = ("op", again.id)
    assert not links.has(node, "captured") and links.has(node, "scheduled")
    assert region(links, [node], 1, "captured").nodes == ()
    assert node in region(links, [node], 1, "scheduled").nodes


@pytest.mark.parametrize("stage", ["captured", "scheduled"])
@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_a_region_holds_what_is_within_its_hops(links: Links, stage: Stage, hops: int) -> None:
    near = {("op", 4)}
    edges = every_edge(links, stage)
    for _ in range(hops):
        near |= {b for a, b in edges if a in near} | {a for a, b in edges if b in near}
    found = region(links, [("op", 4)], hops, stage)
    assert set(found.nodes) == near
    assert found.left_out == 0
    assert {(a, b) for a, b, kind in found.edges if kind != "control"} <= edges


def fan(readers: int) -> Schedule:
    """One op whose result many read."""
    storages = [Storage(0, "x", 4, "activation"), *(Storage(i + 1, f"y{i}", 4, "output") for i in range(readers))]
    accesses: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), (0,)), *(((0,), (i + 1,)) for i in range(readers))]
    after = dependencies(accesses)
    ops = tuple(Op(i, f"op{i}", "Add", "", "forward", *a, after[i]) for i, a in enumerate(accesses))
    return replace(example_schedule(2), graph=Graph("fan", ops, tuple(storages)), transfers=(), residencies=())


def test_no_more_than_some_nodes_are_drawn_the_nearest_first_and_the_rest_is_counted() -> None:
    found = region(Links(fan(5_000)), [("op", 0)], 2, "captured")
    assert len(found.nodes) == MOST_NODES
    assert found.left_out == 5_001 - MOST_NODES
    assert found.nodes[:3] == (("op", 0), ("op", 1), ("op", 2))


def test_orders_that_follow_from_others_are_not_drawn() -> None:
    """Op 2 overwrites what op 0 wrote and op 1 read; its order after op 0 follows from that after op 1."""
    accesses = [((), (0,)), ((0,), (1,)), ((), (0,))]
    after = dependencies(accesses)
    assert after[2] == (0, 1)
    ops = tuple(Op(i, f"op{i}", "Add", "", "forward", *a, after[i]) for i, a in enumerate(accesses))
    storages = (Storage(0, "x", 4, "activation"), Storage(1, "y", 4, "output"))
    found = region(Links(replace(fan(1), graph=Graph("g", ops, storages))), [("op", 0)], 2, "captured")
    assert set(found.edges) == {(("op", 0), ("op", 1), "data"), (("op", 1), ("op", 2), "control")}


def test_every_line_goes_from_left_to_right_and_no_box_lies_on_another(links: Links) -> None:
    found = region(links, centre_of(links, Around("storage", 20), "scheduled"), 3, "scheduled")
    layout = laid_out(found)
    assert all(line.start[0] < line.end[0] for line in layout.lines)
    places = sorted(layout.places.values())
    for n, (left, top) in enumerate(places):
        for other_left, other_top in places[n + 1 :]:
            assert other_left >= left + BOX_WIDTH or abs(other_top - top) >= BOX_HEIGHT
        assert 0 <= left <= layout.width - BOX_WIDTH and 0 <= top <= layout.height - BOX_HEIGHT


def test_a_graph_that_goes_in_circles_is_drawn_all_the_same() -> None:
    schedule = offload_schedule()
    waiting = tuple(replace(t, waits=(0,)) if t.op == 0 else t for t in schedule.op_times)
    found = region(Links(replace(schedule, op_times=waiting)), [("op", 0)], 2, "scheduled")
    assert (("op", 0), ("transfer", 0), "wait") in found.edges and (("transfer", 0), ("op", 0), "wait") in found.edges
    assert sorted(node for layer in layered(found) for node in layer) == sorted(found.nodes)


def test_the_number_in_a_box_is_the_place_in_the_order() -> None:
    schedule = replace(offload_schedule(), order=(1, 0, 2, 3))
    view = StepView(profile_of(schedule))

    def numbers(stage: Stage) -> dict[Node, str]:
        return {b.node: b.label.number for b in drawing(view.links, view, Around("op", 3), 3, stage).boxes}

    assert {n: t for n, t in numbers("captured").items() if n[0] == "op"} == {("op", i): f"#{i}" for i in range(4)}
    assert numbers("scheduled")["op", 1] == "#0" and numbers("scheduled")["op", 0] == "#1"
    assert numbers("scheduled")["transfer", 0] == ""


def test_a_layer_is_its_ops(view: StepView) -> None:
    ops = view.profile.schedule.graph.ops
    layer = "3"
    drawn = drawing(view.links, view, Around("layer", layer=layer), 0, "captured")
    assert sorted(ops[b.node[1]].name for b in drawn.boxes) == ["backward3", "forward3"]
    one = drawing(view.links, view, Around("layer", layer=layer, phase="backward"), 0, "captured")
    assert [ops[b.node[1]].name for b in one.boxes] == ["backward3"]


def test_layers_count_ops_time_and_each_storage_once(view: StepView) -> None:
    found = layers_of(view)
    assert found.phases == ("forward", "backward", "optimizer")
    assert sum(box.ops for box in found.boxes) == len(view.profile.schedule.graph.ops)
    assert sum(box.time_ns for box in found.boxes) == int(view.profile.steps.compute_ns[0])
    box = next(b for b in found.boxes if (b.layer, b.phase) == ("3", "backward"))
    assert box.bytes_by_class == {"weight": 24 * MIB, "activation": 40 * MIB, "gradient": 24 * MIB}
    optimizer = next(b for b in found.boxes if b.phase == "optimizer")
    assert optimizer.bytes_by_class == {
        c: n * 8 * MIB for c, n in (("weight", 24), ("optimizer_state", 48), ("gradient", 24))
    }


def test_a_phase_of_one_layer_stands_in_the_first_row(view: StepView) -> None:
    found = layers_of(view)
    assert next(b for b in found.boxes if b.phase == "optimizer").row == 0
    assert {box.row for box in found.boxes} == set(range(found.rows))


def test_flows_are_bytes_that_one_layer_writes_and_another_reads(view: StepView) -> None:
    found = layers_of(view)
    graph = view.profile.schedule.graph
    box_of = {
        op.id: next(
            n
            for n, b in enumerate(found.boxes)
            if b.phase == op.phase and b.layer == (op.scope.rpartition("/")[2].partition("-")[0])
        )
        for op in graph.ops
    }
    wanted: dict[tuple[int, int], set[int]] = {}
    for storage in graph.storages:
        writer = None
        for access in graph.accesses[storage.id]:
            op = graph.ops[access.op]
            if writer is not None and storage.id in op.reads and box_of[writer] != box_of[op.id]:
                wanted.setdefault((box_of[writer], box_of[op.id]), set()).add(storage.id)
            if storage.id in op.writes:
                writer = op.id
    sizes = {pair: sum(graph.storages[s].bytes for s in held) for pair, held in wanted.items()}
    assert {(f.before, f.after): f.bytes for f in found.flows} == sizes
    assert sizes


def test_boxes_of_layers_do_not_lie_on_each_other_and_the_rest_is_counted() -> None:
    many = StepView(example_profile(example_schedule(150)))
    found = layers_of(many)
    shown = overview(found)
    assert len(found.boxes) <= 200
    # 150 layers, the loss and the optimizer.
    assert len({box.layer for box in found.boxes}) + found.left_out == 152
    assert len(set(shown.corners)) == len(shown.corners) == len(found.boxes)
    columns = {left for left, _ in shown.corners}
    assert all(b - a >= WIDTH for a, b in pairwise(sorted(columns)))
    tops = sorted({top for _, top in shown.corners})
    assert all(b - a >= HEIGHT for a, b in pairwise(tops))


@pytest.mark.parametrize(
    "asked",
    [
        Asked(),
        Asked(Around("op", 12)),
        Asked(Around("storage", 3), 4, "both", ("detach", 0)),
        Asked(Around("layer", layer="blocks.3 & <b>", phase="backward"), 0),
        Asked(Around("layer", layer="x"), 2, "captured", ("transfer", 7)),
    ],
)
def test_the_address_says_what_is_shown(asked: Asked) -> None:
    query = graph_query.query_of(asked)
    assert asked_of(dict(parse_qsl(query.removeprefix("?")))) == asked


@pytest.mark.parametrize(
    "query", [{"op": "x"}, {"op": "-1"}, {"storage": "9" * 30}, {"layer": ""}, {"picked": "op"}, {"hops": "many"}]
)
def test_what_an_address_says_wrongly_is_left_out(query: dict[str, str]) -> None:
    assert asked_of(query) == Asked()
    assert asked_of({"op": "1", "hops": "99"}).hops == 5


def words(told: graph_details.NodeDetails | None, label: str) -> list[str]:
    assert told is not None
    cells = dict(told.facts)[label]
    return [cell.text if isinstance(cell, Way) else cell for cell in cells]


def test_details_lead_on() -> None:
    schedule = dropped()
    page = Page(7, 0, StepView(profile_of(schedule)))
    op = graph_details.node_details(page, ("op", 0))
    assert words(op, "Comes after") == ["Prefetch weight"]
    assert words(op, "Comes before") == ["head", "Store act"]
    assert op is not None and [w.href for w in op.ways] == ["/graph/7?op=0", "/run/7?step=0&picked=op:0"]
    detach = graph_details.node_details(page, ("detach", 0))
    assert words(detach, "Frees") == ["1000 B of the device, without a transfer"]
    assert words(detach, "Brought back by") == ["the next step"]
    assert words(graph_details.storage_details(page, WEIGHT), "First used by") == ["embed"]
    for node in (("op", 99), ("transfer", 99), ("detach", 99), ("op", -1)):
        assert graph_details.node_details(page, node) is None  # type: ignore[arg-type]
    assert graph_details.storage_details(page, 99) is None
    assert graph_details.layer_details(page, layers_of(page.view), "nowhere") is None


def test_the_order_says_what_moved() -> None:
    page = Page(7, 0, StepView(profile_of(replace(offload_schedule(), order=(1, 0, 2, 3)))))
    assert words(graph_details.node_details(page, ("op", 0)), "Order") == [
        "number 1 of 4 from 0, captured as 0",
        "runs after",
        "mix",
        "runs before",
        "relu",
    ]
    assert words(graph_details.whole_details(page, layers_of(page.view)), "Order") == [
        "2 ops run at another place than captured"
    ]


def test_a_search_finds_ops_and_storages(view: StepView) -> None:
    rows, more = graph_found.found_in(view, "layer3")
    assert {(kind, name) for kind, _, name, _ in rows} == {
        ("storage", f"layer3.{part}") for part in ("weight", "adam", "hidden", "gradient")
    }
    assert more == 0
    rows, more = graph_found.found_in(view, "forward")
    assert [name for kind, _, name, _ in rows if kind == "op"] and more == 0
    with pytest.raises(UserError, match="no name has 'nothing'"):
        graph_found.found_in(view, "nothing")
    with pytest.raises(UserError, match="only transfers"):
        graph_found.found_in(view, "in:transfers")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[dash.Dash]:
    path = tmp_path / "graph.db"
    database = open_database(path)
    schedule = example_schedule()
    named = replace(
        schedule.graph,
        ops=tuple(
            replace(op, name=HOSTILE, primitive=HOSTILE, scope=f"Default/{HOSTILE}") for op in schedule.graph.ops
        ),
        storages=tuple(replace(s, name=HOSTILE) for s in schedule.graph.storages),
    )
    record_profile(database, RunDescription("predicted", schedule, "example"), example_profile(schedule))
    hostile = replace(schedule, graph=named)
    record_profile(database, RunDescription("predicted", hostile, "hostile"), example_profile(hostile))
    database.close()
    made = create_app(path)
    yield made
    made.server.config["HYPEROFFLOAD"].database.close()


def page_of(app: dash.Dash, **query: str) -> str:
    with app.server.app_context():
        return json.dumps(graph.layout(**query), cls=PlotlyJSONEncoder)


def test_the_page_says_what_there_is_not(app: dash.Dash) -> None:
    assert "There is no run 99" in page_of(app, run_id="99")
    assert "There is no run <b>" in page_of(app, run_id="<b>")
    missing = page_of(app, run_id="1", op="999")
    assert "There is no op 999 in this graph; it has 25 ops and 34 storages, numbered from 0." in missing
    assert "There is no such layer" in page_of(app, run_id="1", layer="nowhere")


def test_the_page_shows_layers_or_a_neighbourhood(app: dash.Dash) -> None:
    assert "/graph/1?layer=3&phase=backward" in page_of(app, run_id="1")
    both = page_of(app, run_id="1", op="3", stages="both")
    assert "captured:op:3" in both and "scheduled:op:3" in both and "scheduled:transfer:2" in both
    assert "captured:transfer" not in both


def test_hostile_names_are_text(app: dash.Dash) -> None:
    for query in ({}, {"op": "3"}, {"storage": "20", "stages": "both"}):
        told = page_of(app, run_id="2", **query)
        assert "\\u202e" not in told and "\\u0007" not in told
        # The address of a layer holds all of its name.
        assert "xxxx" * 60 not in re.sub(r'"href": "[^"]*"', "", told)
        assert "dangerously" not in told
        pictures = [part.partition('"')[0] for part in told.split("data:image/svg+xml,")[1:]]
        assert all("img" not in unquote(picture) for picture in pictures)
