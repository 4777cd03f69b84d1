"""What the run page explains: lost time and what would help, who holds memory, why, answers, searches, transfers."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from dashboard_example import MIB, example_profile, example_schedule

from app.dashboard.pages.run_details import why_block
from app.dashboard.pages.run_search import panel as search_panel
from app.dashboard.views.alive import moment_view
from app.dashboard.views.answers import answer_view
from app.dashboard.views.clipping import clipped, sentence
from app.dashboard.views.search import search_view
from app.dashboard.views.stalls import highlights, stalls_view
from app.dashboard.views.step import StepView
from app.dashboard.views.transfers import summary, transfer_rows, window_around
from app.dashboard.views.why import why
from app.explaining import ask
from hyperoffload_core.explain.explanation import Explanation, blocking_words
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.simulator import simulate
from hyperoffload_core.sizes import format_ns
from profiles.alive import GROUPS
from profiles.filtering import FilterError, parse_query
from profiles.searching import find


@pytest.fixture(scope="module")
def schedule() -> Schedule:
    return example_schedule()


@pytest.fixture(scope="module")
def view(schedule: Schedule) -> StepView:
    return StepView(example_profile(schedule, "measured"))


@pytest.fixture(scope="module")
def still() -> StepView:
    """A step that moves nothing and has no limit."""
    schedule = example_schedule()
    waits = tuple(replace(t, waits=()) for t in schedule.op_times)
    alone = replace(schedule, transfers=(), op_times=waits, memory_limit_bytes=0)
    return StepView(simulate(alone))


def test_lost_time_is_said_in_one_sentence_and_adds_up(view: StepView) -> None:
    shown = stalls_view(view.explanation, view.end_ns)
    lost = view.explanation.lost
    assert shown.head.startswith(f"{lost.total_ns / view.explanation.step_ns:.0%} of the step is lost to transfers: ")
    assert "(measured)" in shown.head
    assert sum(share for _, _, share in shown.bar) == pytest.approx(1, abs=0.01)
    assert len(shown.causes) == len(lost.by_cause)
    assert len(shown.stalls) == min(5, len(lost.stalls))
    assert shown.stalls[0].width == 1
    assert shown.left_out.startswith(f"and {len(lost.stalls) - 5} smaller")


def test_the_blocking_card_and_the_stalls_say_what_each_counts_where_they_differ(
    view: StepView, schedule: Schedule
) -> None:
    assert blocking_words(StepView(simulate(schedule)).explanation) == ""
    assert stalls_view(view.explanation, view.end_ns).counted == blocking_words(view.explanation)
    lost = view.explanation.lost.total_ns
    alike, clocked = replace(view.explanation, blocking_ns=lost), replace(view.explanation, blocking_ns=lost // 2)
    assert blocking_words(alike) == ""
    words = stalls_view(clocked, view.end_ns).counted
    assert f"Blocking, {format_ns(lost // 2)} in this step, is what the executor clocked" in words
    assert f"{format_ns(lost)} in all" in words


def test_every_stall_leads_to_its_transfer_and_its_place(view: StepView) -> None:
    for row, stall in zip(
        stalls_view(view.explanation, view.end_ns).stalls, view.explanation.lost.stalls, strict=False
    ):
        assert (row.transfer, row.start_ns) == (stall.transfer, stall.start_ns)
        assert row.place[0] <= stall.start_ns and stall.start_ns + stall.lost_ns <= row.place[1]
        assert row.title.startswith("before backward")
        tried = stall.remedies[:3]
        assert len(row.remedies) + len(row.more) == len(tried)
        assert all(r.gain.endswith(" shorter (predicted)") for r in (*row.remedies, *row.more))
        assert row.remedies[0].text.lower().startswith(tried[0].text.lower()[:20])
        # What would gain ten times as much is not hidden behind what is gentler.
        far = [r for r in tried[1:] if (r.gain_ns or 0) >= 10 * (tried[0].gain_ns or 0)]
        assert len(row.remedies) == 1 + len(far)


def test_a_step_without_transfers_says_that_nothing_is_lost(still: StepView) -> None:
    shown = stalls_view(still.explanation, still.end_ns)
    assert shown.head == "No time is lost to transfers: no op of this step waits for one (predicted)."
    assert shown.stalls == shown.causes == ()
    assert [h.label for h in highlights(still)] == ["Largest at the peak"]
    assert "none, no op waits for a transfer" in str(search_panel(still, highlights(still)))


def test_the_worst_stall_and_the_largest_storage_are_named_at_once(view: StepView) -> None:
    stall, largest = highlights(view)
    worst = view.explanation.lost.stalls[0]
    assert (stall.pick, stall.at_ns) == (("transfer", worst.transfer), worst.start_ns)
    assert "none, no op waits" not in str(search_panel(view, highlights(view)))
    assert largest.pick[0] == "storage"
    assert "48.0 MiB" in largest.text


@pytest.mark.parametrize(
    ("op_ns", "words"),
    [(0, "waiting for transfers up to the Prefetch of"), (18_000_000, "waiting for the Prefetch of")],
)
def test_a_stall_behind_a_queue_says_that_it_is_one(op_ns: int, words: str) -> None:
    """Without compute the first wait is for all that the link carries before; beside long ops for one transfer."""
    assert words in highlights(StepView(example_profile(example_schedule(op_ns=op_ns))))[0].text


def test_the_bound_says_how_much_can_be_gained_at_most(view: StepView, schedule: Schedule) -> None:
    def bounded(found: Explanation, lower_bound_ns: int) -> str:
        metrics = replace(found.schedule.metrics, lower_bound_ns=lower_bound_ns)
        return stalls_view(replace(found, schedule=replace(found.schedule, metrics=metrics)), view.end_ns).bound

    planned = StepView(simulate(schedule)).explanation
    assert "this one is 25.0% above" in bounded(planned, planned.step_ns * 4 // 5)
    assert bounded(planned, planned.step_ns).endswith("this one does not take more.")
    assert bounded(planned, 0) == ""
    # A measured step has durations of its own; the bound is that of its plan, and is compared with the plan.
    measured = bounded(StepView(example_profile(schedule, "measured", 1, 2.0)).explanation, planned.step_ns * 4 // 5)
    assert "(predicted, with planned durations); the plan, with " in measured
    assert "25.0% above" in measured


@pytest.mark.parametrize("by", GROUPS)
def test_the_peak_is_explained_group_by_group(view: StepView, by: str) -> None:
    shown = moment_view(view, view.peak[0], by)  # type: ignore[arg-type]
    assert shown.title.endswith("(the peak)") and shown.at_peak
    assert sum(g.bytes for g in shown.groups) == view.peak[1] or shown.groups_left.startswith("and ")
    assert all(g.share == pytest.approx(g.bytes / view.peak[1]) for g in shown.groups)
    for group in shown.groups:
        assert group.count == len(group.holders) + group.left_out
        if group.query:
            hits = find(view.searchable, parse_query(group.query)).hits["storage"]
            workspaces = [h.bytes for h in group.holders if h.storage is None]
            assert hits.count == group.count - len(workspaces)
            assert hits.total("size") == group.bytes - sum(workspaces)
    assert shown.levels[2][1] in shown.summary


def test_what_would_lower_memory_is_a_list_of_ways(view: StepView) -> None:
    ways = {w.title: w for w in moment_view(view, 90_000_000, "class").ways}
    assert "optimizer" not in ways["Offload more"].text
    assert any("layer0.weight" in words for _, words in ways["Offload more"].storages)
    assert "before the first use" in ways["Not needed yet"].text
    assert "in use by forward7" in ways["Cannot leave"].text
    assert moment_view(view, view.end_ns - 1, "class").ways[0].title == "Not needed any more"


def test_something_says_why_and_what_would_help(view: StepView) -> None:
    found, graph = view.explanation, view.profile.schedule.graph
    storages = {s.name: s.id for s in graph.storages}
    moved = why(found, "storage", storages["layer0.hidden"])
    assert "leaves" in moved.text and moved.storage == "layer0.hidden"
    kept = why(found, "storage", storages["layer0.adam"])
    assert "stays" in kept.text and kept.questions == ()
    worst = found.lost.stalls[0]
    transfer = why(found, "transfer", worst.transfer)
    asked = [r.what_if for r in transfer.remedies] + [q for _, q in transfer.questions]
    assert any(q.startswith("keep ") for q in asked)
    assert any(q.startswith("link in ") for q in asked)
    assert any(" earlier by " in q for q in asked)
    assert worst.op is not None
    assert why(found, "op", worst.op).text.lower().startswith("op 'backward")
    assert why(found, "op", 0).text == "No transfer delays this op."


def test_every_question_offered_is_answered_in_place(view: StepView) -> None:
    found = why(view.explanation, "transfer", view.explanation.lost.stalls[0].transfer)
    for question in [r.what_if for r in found.remedies if r.what_if] + [q for _, q in found.questions]:
        shown = answer_view(ask(view.profile, 0, question))
        assert shown.title == f"What if: {question}"
        assert shown.text
        assert all(len(values) == len(shown.columns) for _, values in shown.rows)
    faster = answer_view(ask(view.profile, 0, "link x2"))
    assert faster.tone == "good" and faster.columns == ("As it is", "With it")
    slower = answer_view(ask(view.profile, 0, "link x0.5"))
    assert slower.tone == "bad" and slower.keep is None


def test_a_search_lists_what_it_finds_and_counts_all_of_it(view: StepView) -> None:
    shown = search_view(view, "hidden")
    assert shown.summary.startswith("8 storages of 320 MiB")
    assert "12 transfers of 480 MiB" in shown.summary
    assert {row["kind"] for row in shown.rows} == {"storage", "transfer"}
    assert len({row["key"] for row in shown.rows}) == len(shown.rows) == 20
    ops = search_view(view, "op:AdamW").rows
    assert [(r["title"], r["what"], r["bytes"]) for r in ops[:1]] == [("Op", "AdamW", None)]
    assert (
        search_view(view, "nothing-of-this-name").summary == "Nothing found: no name has 'nothing-of-this-name' in it."
    )
    with pytest.raises(FilterError, match="no field"):
        search_view(view, "colour:red")


def test_transfers_that_block_come_first(view: StepView) -> None:
    table = transfer_rows(view)
    blocking = [row["blocking_ns"] for row in table]
    assert blocking == sorted(blocking, reverse=True)
    assert sum(blocking) == int(view.profile.steps.blocking_ns[0])
    assert all(row["hidden_ns"] + row["exposed_ns"] == row["duration_ns"] for row in table)
    assert {row["direction"] for row in table} == {"in", "out"}
    assert {row["class"] for row in table} == {"Activations"}
    assert summary(view, 12) == "7 of 12 transfers delay an op or the end of the step."


def test_the_table_of_transfers_is_cut_and_narrowed_and_says_so(view: StepView, still: StepView) -> None:
    found = find(view.searchable, parse_query("way:in")).hits["transfer"].rows
    rows = transfer_rows(view, found, most=4)
    assert len(rows) == 4 and {row["direction"] for row in rows} == {"in"}
    assert rows[0] == transfer_rows(view)[0]
    assert summary(view, 4, 6).endswith("6 match the search. The table has the 4 costliest.")
    assert summary(still, 0) == "This schedule moves nothing."
    assert transfer_rows(still) == []


def test_a_zoom_to_a_transfer_shows_what_is_beside_it() -> None:
    assert window_around((100, 200), 10_000) == (0, 500)
    assert window_around((9_900, 10_000), 10_000) == (9_600, 10_000)


def test_long_names_keep_both_ends() -> None:
    assert clipped("short") == "short"
    assert clipped("turned \u202e round \x07") == "turned \N{REPLACEMENT CHARACTER} round \N{REPLACEMENT CHARACTER}"
    cut = clipped("a" * 5_000 + "b" * 5_000)
    assert len(cut) == 90 and cut.startswith("aaa") and cut.endswith("bbb") and "…" in cut


def test_a_sentence_cuts_long_names_and_keeps_its_own_words() -> None:
    said = sentence(f"keep '{'x' * 10_000}' on the device: that needs 5 MiB, unless '{'y' * 10_000}' leaves")
    assert re.fullmatch("Keep 'x+…x+' on the device: that needs 5 MiB, unless 'y+…y+' leaves\\.", said)


def test_the_order_of_remedies_is_said_as_it_is(view: StepView) -> None:
    found = why(view.explanation, "transfer", highlights(view)[0].pick[1])
    free, faster = replace(found.remedies[0], free=True), replace(found.remedies[0], free=False)
    for remedies, words in (((free, faster), "First what needs neither"), ((faster, free), "The largest gain first")):
        block = str(why_block(replace(found, remedies=remedies), ("transfer", 0), 1))
        assert words in block
    assert any("link" in r.text and not r.free for r in found.remedies)


def test_hostile_names_go_through_as_text(schedule: Schedule) -> None:
    graph = schedule.graph
    bad = '<img src=x onerror="alert(1)">\u202e\x07' + "x" * 10_000
    storages = tuple(replace(s, name=bad + str(s.id)) for s in graph.storages)
    profile = example_profile(replace(schedule, graph=replace(graph, storages=storages)))
    view = StepView(profile)
    shown = moment_view(view, view.peak[0], "name")
    assert shown.groups[0].title.startswith("<img")
    assert max(len(words) for way in shown.ways for _, words in way.storages) < 300
    assert max(len(s.text) for s in stalls_view(view.explanation, view.end_ns).stalls) < 1_000
    assert len(highlights(view)[0].text) < 300
    assert search_view(view, '"<img src=x" onerror').found.count == len(storages) + len(schedule.transfers)
    assert 40 * MIB in {row["bytes"] for row in search_view(view, "in:transfers").rows}
