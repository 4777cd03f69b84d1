from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperoffload_core.ir import PHASES, TENSOR_CLASSES, Graph, Op, Storage
from hyperoffload_core.policy import (
    PRESETS,
    Policy,
    PolicyError,
    Rule,
    match_rules,
    policy_from_json,
    policy_from_toml,
    policy_to_json,
    policy_to_toml,
    read_policy,
    rule_matches,
)
from tests.graphs import chain

TEXT = """
name = "mine"
memory_limit = "60%"

[options]
passes = 3

[[rules]]
class = "weight"
action = "keep"

[[rules]]
scope = "*/3-Block/*"
min_size = "3MiB"
action = "offload"
"""

MIB = 1 << 20
GRAPH = Graph(
    "tiny",
    (
        Op(0, "a", "MatMul", "Default/blocks/0-Block/attention", "forward", (0,), (1,), ()),
        Op(1, "b", "Mul", "Default/blocks/3-Block", "forward", (1,), (2,), (0,)),
        Op(2, "c", "Mul", "Gradients/Default/blocks/3-Block/mlp", "backward", (2,), (3,), (1,)),
    ),
    (
        Storage(0, "blocks.0.attention.weight", 4 * MIB, "weight", persistent=True),
        Storage(1, "hidden", 2 * MIB, "activation"),
        Storage(2, "saved", MIB, "activation"),
        Storage(3, "grad", MIB, "gradient"),
        Storage(4, "never used", MIB, "constant", persistent=True),
    ),
)


def _rule(**fields: str) -> Rule:
    return Rule.model_validate({"action": "keep", **fields})


@pytest.mark.parametrize(
    ("fields", "ids"),
    [
        ({"class": "activation"}, (1, 2)),
        ({"scope": "*/3-Block/*"}, (2, 3)),
        ({"scope": "Default/*"}, (0, 1, 2)),
        ({"name": "blocks.*"}, (0,)),
        ({"min_size": "2MiB"}, (0, 1)),
        ({"max_size": "1MiB"}, (2, 3, 4)),
        ({"phase": "backward"}, (3,)),
        ({"phase": "forward", "class": "activation", "max_size": "1MiB"}, (2,)),
    ],
)
def test_a_rule_matches_where_every_condition_holds(fields: dict[str, str], ids: tuple[int, ...]) -> None:
    assert rule_matches(GRAPH, _rule(**fields)) == ids


def test_the_first_rule_that_matches_decides() -> None:
    rules = (_rule(name="saved", action="keep"), _rule(**{"class": "activation", "action": "offload"}))
    assert match_rules(GRAPH, Policy(rules=rules)) == ("auto", "offload", "keep", "auto", "auto")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"class": "kv_cache"}, "this graph has the classes activation, constant, gradient, weight"),
        ({"scope": "*/4-Block/*"}, "near matches: Default/blocks/3-Block"),
        ({"scope": "*/0-block/*"}, "Default/blocks/0-Block"),
        ({"name": "hiden"}, "near matches: hidden"),
        ({"name": "zzzz"}, "there are for instance"),
        ({"phase": "decode"}, "this graph has the phases backward, forward"),
        ({"min_size": "1GiB"}, "its storages have 1.00 MiB to 4.00 MiB"),
        ({"class": "gradient", "phase": "forward"}, "no storage meets all of them"),
    ],
)
def test_a_rule_that_matches_nothing_says_what_is_near(fields: dict[str, str], says: str) -> None:
    policy = Policy(rules=(_rule(**{"class": "weight"}), _rule(**fields)))
    with pytest.raises(PolicyError) as error:
        match_rules(GRAPH, policy)
    assert str(error.value).startswith("rule 2 (")
    assert says in str(error.value)


def test_a_limit_is_a_size_or_a_share_of_the_live_peak_or_the_device() -> None:
    assert Policy(memory_limit="48GiB").limit_bytes(1000, 2000) == 48 << 30
    assert Policy(memory_limit="60%").limit_bytes(1000, 2000) == 600
    assert Policy(memory_limit="none").limit_bytes(1000, 2000) == 2000


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"3MiB"', '"3 megs"', "p.toml, line 14: rules[2].min_size: '3 megs' is not a size"),
        ('"keep"', '"hold"', "p.toml, line 10: rules[1].action is 'hold'; write one of keep, offload, auto"),
        ('"weight"', '"weights"', "p.toml, line 9: rules[1].class is 'weights'; write one of weight, optimizer_state"),
        ("scope", "scop", "line 13: rules[2].scop is no field; the fields are class, scope, name, min_size"),
        ("[options]", "[option]", "p.toml, line 5: option is no field; the fields are name, memory_limit"),
        ('"60%"', '"60"%', "p.toml: not TOML: "),
        ("passes = 3", f"passes = {'9' * 5000}", "p.toml: not TOML: it holds a number of thousands of digits"),
        ("passes = 3", f"passes = {'[' * 5000}", "p.toml: not TOML: it is nested too deeply"),
        ('"60%"', '"sixty"', "p.toml, line 3: memory_limit: 'sixty' is not a size"),
        ('"60%"', "60", "p.toml, line 3: memory_limit is 60; write a text in quotes"),
        ("passes = 3", "passes = [3]", "options.passes is [3]; write a number"),
        ('class = "weight"\n', "", "rules[1]: a rule needs a condition"),
        ('action = "keep"\n', "", "rules[1].action is missing"),
    ],
)
def test_a_fault_in_a_file_is_one_sentence_with_line_and_field(old: str, new: str, says: str) -> None:
    with pytest.raises(PolicyError) as error:
        policy_from_toml(TEXT.replace(old, new), "p.toml")
    assert says in str(error.value)
    assert "\n" not in str(error.value)


_words = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
_rules = st.builds(
    lambda action, **given: Rule.model_validate({"action": action} | {k.strip("_"): v for k, v in given.items() if v}),
    st.sampled_from(["keep", "offload", "auto"]),
    name=_words,
    scope=st.none() | _words,
    class_=st.none() | st.sampled_from(TENSOR_CLASSES),
    phase=st.none() | st.sampled_from(PHASES),
    min_size=st.sampled_from([None, "5MiB"]),
)
_policies = st.builds(
    Policy,
    name=_words,
    memory_limit=st.sampled_from([None, "48GiB", "60%"]),
    strategy=_words,
    options=st.dictionaries(_words, st.booleans() | st.integers(-(2**53), 2**53) | _words | st.floats(allow_nan=False)),
    rules=st.lists(_rules, max_size=3).map(tuple),
)


@given(_policies)
def test_a_policy_reads_back_equal_from_toml_and_json(policy: Policy) -> None:
    assert policy_from_toml(policy_to_toml(policy)) == policy
    assert policy_from_json(policy_to_json(policy)) == policy


def test_a_policy_file_lends_its_name(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text('memory_limit = "45%"\n')
    assert read_policy(file) == Policy(name="small", memory_limit="45%")
    (tmp_path / "small.json").write_text('{"name": "other", "memory_limit": null}')
    assert read_policy(tmp_path / "small.json").name == "other"


@pytest.mark.parametrize("name", ["missing.toml", "policy.yaml"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "policy.yaml").write_text("a: 1")
    with pytest.raises(PolicyError, match=name):
        read_policy(tmp_path / name)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_named_as_it_is_listed(name: str) -> None:
    assert PRESETS[name].name == name


def test_a_rule_for_a_scope_says_where_no_op_has_one() -> None:
    with pytest.raises(PolicyError, match=r"no scope is like that: no op of this graph has one$"):
        match_rules(chain(2), Policy(rules=(Rule(scope="*/3-Block/*", action="keep"),)))


def test_a_rule_for_a_graph_without_storages_says_so() -> None:
    with pytest.raises(PolicyError, match="matches no storage; this graph has no storages"):
        match_rules(Graph("empty", (), ()), Policy(rules=(Rule(min_size="1KB", action="keep"),)))
