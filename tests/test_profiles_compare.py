"""A comparison aligns by name, says what differs, and says of every profile whether it was predicted or measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from profiles_samples import ACT, GRAPH, HARDWARE, column, keep_schedule, offload_schedule, profile_of

from hyperoffload_core.errors import UserError
from hyperoffload_core.ir import Graph
from profiles.compare import compare
from profiles.comparison import Comparison, LabelledProfile, Placement
from profiles.decisions import policy_differences
from profiles.op_groups import OP_GROUPINGS, op_groups


@pytest.fixture
def comparison() -> Comparison:
    keep = profile_of(keep_schedule(), "measured", steps=3, losses=(3.0, 2.0, 1.0))
    offload = profile_of(offload_schedule(), "predicted", losses=(3.0, 2.0, 1.0))
    return compare([LabelledProfile("none", keep, 1), LabelledProfile("offload", offload, 2)])


def test_numbers_come_with_differences_to_the_baseline(comparison: Comparison) -> None:
    numbers = {n.name: (n.values, n.differences) for n in comparison.numbers}
    assert numbers["step time"] == ((400, 420), (0, 20))
    assert numbers["compute"] == ((400, 400), (0, 0))
    assert numbers["blocking time"] == ((0, 20), (0, 20))
    assert numbers["peak live memory"] == ((1750, 1750), (0, 0))
    assert numbers["device memory used"] == ((1750, 1854), (0, 104))
    assert numbers["memory limit"] == ((4000, 1800), (0, -2200))
    assert numbers["bytes in"] == ((0, 400), (0, 400))
    assert numbers["overlap"] == ((None, 0.9), (None, None))
    assert numbers["last loss"] == ((1.0, 1.0), (0.0, 0.0))


def test_the_baseline_can_be_another_profile() -> None:
    profiles = [LabelledProfile(n, profile_of(s)) for n, s in (("none", keep_schedule()), ("off", offload_schedule()))]
    assert compare(profiles, baseline=1).numbers[0].differences == (-20, 0)


def test_the_verdict_is_one_sentence_that_says_predicted_and_measured(comparison: Comparison) -> None:
    assert comparison.verdict == (
        "On Test box, against none (measured): offload (predicted) takes 1.05 times the step time, needs 6% more "
        "device memory, exceeds its limit by 54 B, waits 20 ns for transfers and ends with the same loss; "
        "predicted and measured numbers also differ by the error of the prediction."
    )
    assert "Some of these profiles were measured and some predicted" in comparison.notes[0]


def test_a_measured_run_and_its_prediction_are_called_so() -> None:
    predicted = profile_of(offload_schedule())
    measured = replace(profile_of(offload_schedule(), "measured"), steps=replace(predicted.steps, step_ns=column(462)))
    items = [LabelledProfile("plan", predicted), LabelledProfile("run", measured)]
    assert "run (measured) measured for the same schedule a 10.0% longer step time" in compare(items).verdict
    assert "plan (predicted) predicts for the same schedule a 9.1% shorter step time" in compare(items, 1).verdict


def test_the_verdict_names_each_hardware_where_they_differ() -> None:
    elsewhere = replace(keep_schedule(), hardware=replace(HARDWARE, name="big", title="Big box"))
    items = [LabelledProfile("a", profile_of(keep_schedule())), LabelledProfile("b", profile_of(elsewhere))]
    assert compare(items).verdict.startswith(
        "Against a (predicted) on Test box: b (predicted) on Big box takes the same"
    )
    three = compare([*items, LabelledProfile("c", profile_of(keep_schedule()))]).verdict
    assert three.count("Test box") == 1 and "; c (predicted) takes the same" in three


def test_of_many_times_the_memory_the_verdict_says_how_many() -> None:
    def using(size: int) -> LabelledProfile:
        profile = profile_of(keep_schedule(), "measured")
        return LabelledProfile(str(size), replace(profile, steps=replace(profile.steps, peak_bytes=column(size))))

    assert "needs 90% more device memory" in compare([using(1000), using(1900)]).verdict
    assert "needs 211 times the device memory" in compare([using(1000), using(211_000)]).verdict


def test_storages_whose_tier_decision_differs_are_listed(comparison: Comparison) -> None:
    (storage,) = comparison.decisions
    assert (storage.name, storage.bytes) == ("act", 400)
    assert [p.text for p in storage.placements if p] == ["kept", "offloaded 1 time"]
    held = [r for r in storage.residencies if r]
    assert [r.resident for r in held] == [1.0, pytest.approx(400 / 420)]
    assert [r.peak_share for r in held] == [pytest.approx(400 / 1750)] * 2
    (change,) = comparison.tier_changes
    assert (change.side, change.tensor_class, change.before, change.after) == (1, "activation", "device", "moves")
    assert (change.count, change.bytes) == (1, 400)


def test_storages_held_for_another_part_of_the_step_are_listed_though_nothing_was_decided() -> None:
    profile = profile_of(keep_schedule())
    longer = profile_of(keep_schedule())
    longer.lifetimes.end_ns[1] = 150  # the input, given back 50 ns later
    result = compare([LabelledProfile("a", profile), LabelledProfile("b", longer)])
    (held,) = result.storages
    assert (held.name, [r.resident for r in held.residencies if r]) == ("input", [0.25, 0.375])
    assert (held.decided_otherwise, result.decisions, result.tier_changes) == (False, (), ())


def test_policies_differ_by_setting_and_by_rule() -> None:
    rule = {"class": "activation", "min_size": "1MiB", "action": "offload"}
    policies = [
        {"strategy": "none", "memory_limit": "50%"},
        {"strategy": "hyperoffload", "memory_limit": "50%", "options": {"reorder": True}, "rules": [rule]},
    ]
    assert {d.setting: d.values for d in policy_differences(policies)} == {
        "strategy": ("none", "hyperoffload"),
        "options.reorder": (None, "true"),
        "rule 1": (None, "class = activation, min_size = 1MiB: offload"),
    }


def test_where_time_went_counts_durations_and_waits(comparison: Comparison) -> None:
    (head,) = [op for op in comparison.ops if op.largest_ns]
    assert (head.name, head.durations_ns, head.waits_ns, head.differences_ns) == ("head", (100, 100), (0, 20), (0, 20))
    layers = {g.name: g for g in op_groups(comparison, "layer")}
    assert layers["block1"].differences_ns == (0, 20)
    for by in OP_GROUPINGS:
        groups = op_groups(comparison, by)
        assert sum(g.differences_ns[1] for g in groups) == 420 - 400
        assert sum(g.counts[0] for g in groups) == 4


def test_placements_read_like_decisions() -> None:
    assert Placement("pool", 0, 2).text == "fetched from the pool 2 times"
    assert Placement("pool", 0, 0).text == "stays in the pool"
    assert Placement("device", 2, 2).text == "offloaded 2 times"


def test_transfers_show_what_blocks(comparison: Comparison) -> None:
    rows = {(t.storage, t.direction): t.moves for t in comparison.transfers}
    assert set(rows) == {("act", "in"), ("act", "out")}
    none, moved = rows["act", "in"]
    assert none.count == 0
    assert (moved.count, moved.bytes, moved.duration_ns, moved.exposed_ns, moved.blocking_ns) == (1, 400, 100, 20, 20)
    assert (moved.hidden_ns, moved.slack_ns, none.slack_ns, none.cause) == (80, 0, None, None)


def test_other_models_are_compared_where_they_have_counterparts() -> None:
    ops = tuple(replace(op, name=f"other{op.id}") if op.id else op for op in GRAPH.ops)
    other = Graph("other", ops, (replace(GRAPH.storages[0], name="w"), *GRAPH.storages[1:]))
    items = [LabelledProfile("a", profile_of(keep_schedule())), LabelledProfile("b", profile_of(keep_schedule()))]
    items[1] = replace(items[1], profile=profile_of(replace(keep_schedule(), graph=other)))
    result = compare(items)
    assert "b (predicted) is another graph, takes the same step time" in result.verdict
    (note,) = result.notes
    assert note.startswith("b runs another graph than a: 1 of its 4 ops and 4 of its 5 storages have a counterpart")
    assert {op.name for op in result.ops if None not in op.durations_ns} == {"embed"}
    strangers = Graph("strange", tuple(replace(o, name=f"x{o.id}") for o in GRAPH.ops), GRAPH.storages[:0])
    items[1] = replace(
        items[1], profile=profile_of(replace(keep_schedule(), graph=strangers, residencies=(), homes=()))
    )
    assert "none of its ops and storages has a counterpart" in compare(items).notes[0]
    assert result.tier_changes == ()


def test_ops_are_aligned_by_name_and_not_by_time() -> None:
    order = (1, 0, 2, 3)
    swapped = replace(GRAPH, ops=tuple(replace(GRAPH.ops[old], id=new, after=()) for new, old in enumerate(order)))
    slow = profile_of(replace(keep_schedule(), graph=swapped))
    slow.ops.end_ns[0] += 30  # the first op of this graph is "mix"
    result = compare([LabelledProfile("a", profile_of(keep_schedule())), LabelledProfile("b", slow)])
    assert (result.ops[0].name, result.ops[0].durations_ns, result.ops[0].differences_ns) == (
        "mix",
        (100, 130),
        (0, 30),
    )
    assert all(op.largest_ns == 0 for op in result.ops[1:])


def test_op_durations_are_medians_over_the_steps() -> None:
    profile = profile_of(keep_schedule(), "measured", steps=3)
    profile.ops.end_ns[[0, 4, 8]] = profile.ops.start_ns[[0, 4, 8]] + [90, 500, 110]
    result = compare([LabelledProfile("a", profile), LabelledProfile("b", profile)])
    assert {op.name: op.durations_ns[0] for op in result.ops}["embed"] == 110


def test_an_op_that_only_one_graph_has_has_no_difference() -> None:
    other = Graph("other", tuple(replace(op, name=f"{op.name}-2") for op in GRAPH.ops), GRAPH.storages)
    profiles = [profile_of(keep_schedule()), profile_of(replace(keep_schedule(), graph=other))]
    result = compare([LabelledProfile("a", profiles[0]), LabelledProfile("b", profiles[1])])
    assert {op.name: op.durations_ns for op in result.ops}["mix-2"] == (None, 100)
    assert all(op.differences_ns[1] is None for op in result.ops)


def test_equal_profiles_differ_in_nothing() -> None:
    profile = profile_of(offload_schedule())
    result = compare([LabelledProfile("a", profile), LabelledProfile("b", profile)])
    assert (result.storages, result.transfers, result.policies, result.notes) == ((), (), (), ())
    assert all(not d for n in result.numbers for d in n.differences)
    assert "takes the same step time" in result.verdict


def test_what_cannot_be_compared_is_said() -> None:
    one = LabelledProfile("a", profile_of(keep_schedule()))
    with pytest.raises(UserError, match="at least two"):
        compare([one])
    with pytest.raises(UserError, match="baseline is profile 2"):
        compare([one, one], baseline=2)
    with pytest.raises(UserError, match="b has no recorded step"):
        compare([one, LabelledProfile("b", profile_of(keep_schedule(), steps=0))])


def test_a_storage_offloaded_in_some_other_step_counts_by_the_median_step() -> None:
    profile = profile_of(offload_schedule(), "measured", steps=3)
    keep = profile.transfers.step == 1  # the median step of three equal ones is the middle one
    assert profile.median_step == 1
    moved = replace(
        profile.transfers, **{n: getattr(profile.transfers, n)[keep] for n in profile.transfers.__annotations__}
    )
    result = compare(
        [LabelledProfile("a", profile_of(keep_schedule())), LabelledProfile("b", replace(profile, transfers=moved))]
    )
    assert result.decisions[0].name == GRAPH.storages[ACT].name
