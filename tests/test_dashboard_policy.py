"""The policy editor: every field judged for itself, the text and the fields say the same."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from dashboard_example import HARDWARE, MIB, example_graph

from app.dashboard.pages.policy_events import changed_draft, policy_now, updates
from app.dashboard.views.policy import Draft, Ground, check, draft_of, ground_of, limit_percent
from hyperoffload_core.policy import PRESETS, PolicyError, policy_from_toml

RULE = {"id": "rule0", "class": "activation", "action": "offload"}


@pytest.fixture(scope="module")
def ground() -> Ground:
    return ground_of(example_graph(), HARDWARE.device_bytes)


def test_a_good_policy_says_what_its_limit_comes_to_and_what_its_rules_match(ground: Ground) -> None:
    checked = check(Draft(limit="60%", rules=[RULE]), ground)
    assert checked.error == ""
    assert checked.policy is not None and checked.policy.rules[0].tensor_class == "activation"
    assert checked.limit_note == "554 MiB, 60% of the 924 MiB it needs without offload."
    assert (checked.rows[0]["count"], checked.rows[0]["bytes"]) == (8, 8 * 40 * MIB)
    assert policy_from_toml(checked.toml) == checked.policy


@pytest.mark.parametrize(
    ("draft", "field", "words"),
    [
        (Draft(limit="abc"), "limit_error", "'abc' is not a size"),
        (Draft(limit="5%"), "limit_error", "the smallest feasible limit is 108 MiB (about 12%)"),
        (Draft(strategy="fastest"), "strategy_error", "there is no strategy 'fastest'"),
        (Draft(options={"effort": 3}), "strategy_error", "'effort'"),
        (Draft(rules=[{"action": "keep"}]), "rule_error", "Rule 1: a rule needs a condition"),
        (Draft(rules=[RULE, {"class": "kv_cache", "action": "keep"}]), "rule_error", "Rule 2: "),
        (Draft(rules=[{"scope": "*/3-Blok/*", "action": "keep"}]), "rule_error", "Default/3-Block"),
        (Draft(rules=[{"min_size": "3 apples", "action": "keep"}]), "rule_error", "'3 apples' is not a size"),
    ],
)
def test_what_is_wrong_stands_beside_its_field(draft: Draft, field: str, words: str, ground: Ground) -> None:
    checked = check(draft, ground)
    assert checked.policy is None
    assert words in getattr(checked, field)
    others = {"limit_error", "strategy_error", "rule_error"} - {field}
    assert all(getattr(checked, other) == "" for other in others)


def test_without_a_graph_rules_are_checked_for_form_only() -> None:
    checked = check(Draft(rules=[{"class": "kv_cache", "action": "keep"}]), None)
    assert checked.policy is not None
    assert checked.rows[0]["count"] is None


def test_no_limit_is_the_whole_device(ground: Ground) -> None:
    assert check(Draft(limit=""), ground).limit_note.startswith("The whole device: 4.00 GiB")


def test_the_slider_shows_sizes_and_shares_alike(ground: Ground) -> None:
    assert limit_percent("60%", ground) == pytest.approx(60, abs=0.1)
    assert limit_percent("462MiB", ground) == pytest.approx(50, abs=0.5)
    assert limit_percent("abc", ground) is None


def change(draft: Draft, source: str, ground: Ground, prop: str = "value", **given: Any) -> Draft | None:
    known = {"value_ids": [], "switch_ids": []} | given.pop("known", {})
    return changed_draft(draft, ground, source, prop, {"values": [], "switches": [], **given}, known)


def test_each_field_changes_its_part_of_the_draft(ground: Ground) -> None:
    draft = Draft()
    assert change(draft, "policy-name", ground, name=" night ") == replace(draft, name="night")
    assert change(draft, "policy-limit", ground, limit="48GiB") == replace(draft, limit="48GiB")
    assert change(draft, "policy-slider", ground, slider=45) == replace(draft, limit="45%")
    assert change(draft, "policy-slider", ground, slider=60) is None
    assert change(draft, "policy-strategy", ground, strategy="reactive") == replace(draft, strategy="reactive")
    known = {"value_ids": [{"option": "effort"}], "switch_ids": [{"option": "reorder"}]}
    options = change(draft, "options", ground, values=["high"], switches=[False], known=known)
    assert options is not None and options.options == {"effort": "high", "reorder": False}


def test_a_text_replaces_the_whole_draft_or_says_where_it_is_wrong(ground: Ground) -> None:
    text = 'memory_limit = "70%"\nstrategy = "reactive"\n[[rules]]\nclass = "weight"\naction = "keep"\n'
    draft = change(Draft(), "policy-toml", ground, toml=text)
    assert draft is not None
    assert (draft.limit, draft.strategy, draft.rules[0]["class"], draft.rules[0]["id"]) == (
        "70%",
        "reactive",
        "weight",
        "rule0",
    )
    with pytest.raises(PolicyError, match="line 1"):
        change(Draft(), "policy-toml", ground, toml="memory_limit = 70%")


def test_rules_are_added_edited_moved_and_removed(ground: Ground) -> None:
    draft = change(Draft(), "policy-add", ground, add=1)
    assert draft is not None
    draft = change(draft, "policy-add", ground, add=2)
    assert draft is not None
    assert [rule["id"] for rule in draft.rules] == ["rule0", "rule1"]
    event = {"rowId": "rule1", "data": {**draft.rules[1], "class": "weight", "action": "keep"}}
    draft = change(draft, "policy-rules", ground, "cellValueChanged", edited=[event])
    assert draft is not None and draft.rules[1]["class"] == "weight"
    draft = change(draft, "policy-rules", ground, "cellRendererData", acted={"rowId": "rule1", "colId": "up"})
    assert draft is not None and [rule["id"] for rule in draft.rules] == ["rule1", "rule0"]
    draft = change(draft, "policy-rules", ground, "cellRendererData", acted={"rowId": "rule1", "colId": "down"})
    assert draft is not None and [rule["id"] for rule in draft.rules] == ["rule0", "rule1"]
    draft = change(draft, "policy-rules", ground, "cellRendererData", acted={"rowId": "rule1", "colId": "down"})
    assert draft is not None and [rule["id"] for rule in draft.rules] == ["rule0", "rule1"]
    draft = change(draft, "policy-rules", ground, "cellRendererData", acted={"rowId": "rule0", "colId": "remove"})
    assert draft is not None and [rule["id"] for rule in draft.rules] == ["rule1"]


def test_a_wrong_policy_cannot_be_compiled_and_leaves_the_text(ground: Ground) -> None:
    shown = updates(Draft(limit="abc"), ground, "policy-limit")
    assert shown["valid"] is None
    assert shown["limit_error"]
    good = updates(Draft(limit="70%"), ground, "policy-limit")
    assert good["valid"]["memory_limit"] == "70%"
    assert 'memory_limit = "70%"' in good["toml"]
    assert good["slider"] == 70


def test_a_saved_policy_replaces_the_whole_draft(ground: Ground) -> None:
    saved = 'name = "night"\nmemory_limit = "70%"\nstrategy = "reactive"\n'
    draft = change(Draft(), "policy-preset", ground, preset="saved:night", saved=saved)
    assert draft == draft_of(policy_from_toml(saved))
    assert updates(draft, ground, "policy-preset")["name"] == "night"


@pytest.mark.parametrize("name", PRESETS)
def test_presets_survive_the_editor(name: str) -> None:
    checked = check(draft_of(PRESETS[name]), None)
    assert checked.policy == PRESETS[name]


def test_a_button_pressed_right_after_a_key_means_what_the_page_shows(ground: Ground) -> None:
    draft = Draft(limit="60%")
    text = check(draft, ground).toml
    assert policy_now(asdict(draft), ground, "night", "70%", text).memory_limit == "70%"
    edited = text.replace("60%", "80%")
    assert policy_now(asdict(draft), ground, draft.name, draft.limit, edited).memory_limit == "80%"
    with pytest.raises(PolicyError, match="'abc' is not a size"):
        policy_now(asdict(draft), ground, "", "abc", text)
