"""The filter language: what is typed is understood as it was meant, or refused with what would be right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles.filtering import EXAMPLES, FIELDS, PEAK, FilterError, Term, parse_query, pattern, quoted

MIB, MS = 1024 * 1024, 1_000_000
WORDS = st.text(st.characters(exclude_characters='"', exclude_categories=("Cs",)), min_size=1, max_size=20)


def terms(text: str) -> list[Term]:
    return list(parse_query(text).terms)


def test_the_example_of_the_language_reads_as_it_looks() -> None:
    text = "class:weight size>4MiB blocking>1ms phase:backward layer:3 name:*attention* in:transfers"
    assert terms(text) == [
        Term("class", "=", ("weight",)),
        Term("size", ">", (4 * MIB,)),
        Term("blocking", ">", (MS,)),
        Term("phase", "=", ("backward",)),
        Term("layer", "=", ("3",)),
        Term("name", "=", ("*attention*",)),
        Term("in", "=", ("transfers",)),
    ]
    assert parse_query(text).kinds == ("transfer",)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("size >= 4 MiB", "size>=4MiB"),
        ("SIZE:>4mib", "size>4MiB"),
        ("bytes>4MiB", "size>4MiB"),
        ("class: Weights", "class:weight"),
        ("class:optimizer-state", "class:optimizer_state"),
        ("in:transfer", "in:transfers"),
        ("slack<0.1ms", "slack<100us"),
        ("op=MatMul", "op:matmul"),
        ("blocking>0ms", "blocking>0"),
        ("  a   b ", 'a "b"'),
    ],
)
def test_what_people_type_instead_means_the_same(typed: str, meant: str) -> None:
    assert parse_query(typed) == parse_query(meant)


def test_words_without_a_field_are_parts_of_names_and_quotes_keep_signs_together() -> None:
    assert terms('-Adam "a b:c>d" gradient/0:1') == [
        Term("name", "=", ("adam",), negated=True),
        Term("name", "=", ("a b:c>d",)),
        Term("name", "=", ("gradient/0:1",)),
    ]
    assert terms('scope:"a, b",c') == [Term("scope", "=", ("a, b", "c"))]
    assert terms("at:peak") == [Term("at", "=", (PEAK,))]
    assert terms("") == terms("   ") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour:red", "there is no field 'colour'"),
        ("clas:weight", "near matches: class"),
        ("class:wieght", "write one of weight, optimizer_state"),
        ("class>weight", "class is no quantity"),
        ("class:", "needs a value, such as class:weight,gradient"),
        ("class:weight,", "lacks a value beside its comma"),
        ("blocking>1", "a time has a number and ns, us, ms or s"),
        ("size>big", "'big' is not a size"),
        ("size>4", "a size has a number and a unit, such as size>4MiB"),
        ("size>99999999PB", "out of range"),
        ("slack<1e9s", "a time has a number"),
        ('name:"a', "has no closing quote"),
        ("in:ops slack>1ms", "only transfers have slack, which in: leaves out"),
        ("op:MatMul way:in", "nothing has all of op, way"),
        ("-in:ops -in:storages,transfers", "in: leaves out everything"),
        ("x" * 1001, "at most 1,000 characters"),
    ],
)
def test_what_cannot_be_understood_says_what_would_be_right(text: str, words: str) -> None:
    with pytest.raises(FilterError, match=words) as caught:
        parse_query(text)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=80) | st.text('abin:<>=-",. 4MiBms*?', max_size=40))
def test_any_text_is_a_query_or_a_sentence(text: str) -> None:
    try:
        query = parse_query(text)
    except FilterError as error:
        assert 0 < len(str(error)) < 500
    else:
        assert query.kinds
        assert all(term.field in FIELDS and term.values for term in query.terms)


@given(st.lists(st.tuples(st.sampled_from(["name", "scope", "layer"]), WORDS, st.booleans()), max_size=4))
def test_quoted_words_come_back_as_they_are(asked: list[tuple[str, str, bool]]) -> None:
    text = " ".join(f"{'-' * negated}{field}:{quoted(word)}" for field, word, negated in asked)
    expected = [Term(field, "=", (word.lower(),), negated) for field, word, negated in asked]
    assert terms(text) == expected


@given(WORDS, WORDS)
def test_a_pattern_matches_what_a_shell_would(left: str, right: str) -> None:
    plain = [w.replace("*", "").replace("?", "") for w in (left, right)]
    whole = f"{plain[0]}x\n{plain[1]}"
    assert pattern(f"{plain[0]}*{plain[1]}").fullmatch(whole.upper() if whole.isascii() else whole)
    assert pattern(f"{plain[0]}??{plain[1]}").fullmatch(whole)
    assert not pattern(f"{plain[0]}?{plain[1]}").fullmatch(whole)


def test_a_malicious_pattern_takes_no_time() -> None:
    assert not pattern("*a" * 400 + "b*c").fullmatch("ab" * 1_000)


def test_every_field_and_every_example_is_understood() -> None:
    for field in FIELDS.values():
        assert terms(field.example)[0].field == field.name
    for example in EXAMPLES:
        assert terms(example)
