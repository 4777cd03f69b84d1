"""What the run page shows is in its address, and an address shows it again."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dashboard.views.address import Shown, query_of, shown_of
from profiles.stacks import GROUPINGS

times = st.integers(0, 10**17)
spans = st.tuples(times, times).filter(lambda s: s[0] < s[1])


@given(
    st.builds(
        Shown,
        step=st.none() | st.integers(0, 10**6) | st.just("all"),
        show=st.none() | st.sampled_from(["measured", "predicted", "both"]),
        by=st.sampled_from(GROUPINGS),
        window=st.none() | spans,
        picked=st.none() | st.tuples(st.sampled_from(["op", "storage", "transfer"]), st.integers(0, 10**9)),
        at=st.none() | times,
        selected=st.none() | spans,
    )
)
def test_an_address_says_everything_that_is_shown(shown: Shown) -> None:
    query = query_of(shown)
    assert shown_of(dict(parse_qsl(query.removeprefix("?")))) == shown


def test_a_page_as_it_opens_has_no_query() -> None:
    assert query_of(Shown()) == ""
    assert shown_of({}) == Shown()


@pytest.mark.parametrize(
    "query",
    [
        {"step": "-1"},
        {"step": "1e3"},
        {"show": "<b>"},
        {"by": "shape"},
        {"window": "9-3"},
        {"window": "5-5"},
        {"window": "a-b"},
        {"picked": "op:x"},
        {"picked": "layer:3"},
        {"at": "٣"},
        {"selected": "1-2-3"},
        {"at": "9" * 40},
    ],
)
def test_what_an_address_says_wrongly_is_left_to_the_page(query: dict[str, str]) -> None:
    assert shown_of(query) == Shown()
