"""Packing of blocks with lifetimes: no shared byte, nothing below what is alive, the optimum where it is known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.packing.core import core_of, laid_around, search_core
from hyperoffload_core.packing.firstfit import first_fit, first_fit_below, sequences
from hyperoffload_core.packing.minimalloc import read_buffers
from hyperoffload_core.packing.overlaps import Overlaps
from hyperoffload_core.packing.pack import Packing, pack
from hyperoffload_core.packing.problem import Block, make_problem
from hyperoffload_core.packing.search import Search
from hyperoffload_core.passes.addresses import alignment_bytes, assign_addresses

DATA = Path("/work/shared/data/minimalloc")


def exist_at_once(a: Block, b: Block) -> bool:
    return any(s < f and t < e for s, e in a.spans for t, f in b.spans if s < e and t < f)


def check(blocks: Sequence[Block], offsets: Sequence[int], height: int) -> None:
    for i, (block, offset) in enumerate(zip(blocks, offsets, strict=True)):
        assert offset >= 0
        assert offset % block.alignment == 0
        assert block.offset in (None, offset)
        for other, at in zip(blocks[:i], offsets[:i], strict=True):
            assert not exist_at_once(block, other) or offset + block.bytes <= at or at + other.bytes <= offset
    assert height == max(o + b.bytes for o, b in zip(offsets, blocks, strict=True))


def most_alive(blocks: Sequence[Block]) -> int:
    moments = {s for b in blocks for s, _ in b.spans}
    return max(sum(b.bytes for b in blocks if any(s <= m < e for s, e in b.spans)) for m in moments)


def lowest_height(blocks: Sequence[Block]) -> int:
    """By trying every order in which blocks can lie above each other."""
    best = sum(b.bytes + b.alignment for b in blocks)
    for order in permutations(blocks):
        tops: list[tuple[Block, int]] = []
        for block in order:
            floor = max((top for other, top in tops if exist_at_once(block, other)), default=0)
            tops.append((block, -(-floor // block.alignment) * block.alignment + block.bytes))
        best = min(best, max(top for _, top in tops))
    return best


def a_block(most_bytes: int, alignments: Sequence[int]) -> st.SearchStrategy[Block]:
    moments = st.lists(st.integers(0, 12), min_size=2, max_size=4, unique=True).map(sorted)
    spans = moments.map(lambda m: tuple(zip(m[::2], m[1::2], strict=False)))
    return st.builds(Block, st.integers(1, most_bytes), spans, st.sampled_from(alignments))


def a_whole_line() -> st.SearchStrategy[Block]:
    return a_block(9, (64,)).map(lambda b: Block(64 * b.bytes, b.spans, 64))


@given(st.lists(a_block(40, (1, 1, 2, 8)), min_size=1, max_size=24), st.integers(1, 400))
@settings(max_examples=60, deadline=None)
def test_blocks_alive_at_once_share_no_byte(blocks: list[Block], capacity: int) -> None:
    asked = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) > 60

    packing = pack(blocks, capacity, stop)
    check(blocks, packing.offsets, packing.height)
    assert most_alive(blocks) <= packing.bound_bytes <= packing.height


@given(st.lists(a_block(300, (1,)), min_size=1, max_size=30), st.none() | st.integers(1, 4000))
@settings(max_examples=60, deadline=None)
def test_addresses_are_aligned_by_size_and_never_shared(blocks: list[Block], capacity: int | None) -> None:
    aligned = [Block(b.bytes, b.spans, alignment_bytes(b.bytes)) for b in blocks]
    offsets, height = assign_addresses(aligned, capacity)
    check(aligned, offsets, height)
    assert height >= most_alive(aligned)
    assert (offsets, height) == assign_addresses(aligned, capacity)


@given(st.lists(a_block(6, (1, 1, 1, 2)), min_size=1, max_size=5))
@settings(max_examples=80, deadline=None)
def test_small_problems_are_packed_as_low_as_can_be_and_it_is_proved(blocks: list[Block]) -> None:
    packing = pack(blocks)
    check(blocks, packing.offsets, packing.height)
    assert packing.height == packing.bound_bytes == lowest_height(blocks)


def test_a_height_above_what_is_alive_is_proved_where_nothing_lower_exists() -> None:
    spans = [((0, 2),), ((1, 3),), ((2, 4),), ((3, 5),), ((0, 1), (4, 5))]
    ring = [Block(1, span) for span in spans]
    assert most_alive(ring) == 2
    assert pack(ring) == Packing(pack(ring).offsets, 3, 3)
    assert Search(make_problem(ring), 2).run(10_000, lambda: False) == ("impossible", None)


def test_a_search_that_is_stopped_gives_what_first_fit_found() -> None:
    blocks = cut_rectangle(80, 1)
    packing = pack(blocks, stop=lambda: True)
    check(blocks, packing.offsets, packing.height)
    assert packing.height > packing.bound_bytes


def cut_rectangle(count: int, seed: int) -> list[Block]:
    """A full rectangle of time and addresses, cut into ``count`` blocks: the best packing has no hole anywhere."""
    random = Random(seed)
    pieces = [(0, 4096, 0, 4096)]
    while len(pieces) < count:
        pieces.sort(key=lambda p: (p[1] - p[0]) * (p[3] - p[2]) * random.uniform(0.2, 1))
        begin, end, low, high = pieces.pop()
        share = random.uniform(0.2, 0.8)
        if random.random() < 0.5:
            at = begin + max(1, int((end - begin) * share))
            pieces += [(begin, at, low, high), (at, end, low, high)]
        else:
            at = low + max(1, int((high - low) * share))
            pieces += [(begin, end, low, at), (begin, end, at, high)]
    random.shuffle(pieces)
    return [Block(high - low, ((begin, end),)) for begin, end, low, high in pieces]


@pytest.mark.parametrize(("count", "seed"), [(40, 1), (60, 2), (80, 3)])
def test_a_rectangle_that_was_cut_up_is_put_together_again(count: int, seed: int) -> None:
    blocks = cut_rectangle(count, seed)
    packing = pack(blocks, 4096)
    check(blocks, packing.offsets, packing.height)
    assert packing.height == packing.bound_bytes == 4096


@pytest.mark.parametrize("seed", range(4))
def test_whole_step_blocks_lie_below_the_others_without_a_hole(seed: int) -> None:
    random = Random(seed)
    whole = [Block(64 * random.randint(1, 9), ((0, 100),), 64) for _ in range(20)]
    short = [Block(64, ((i, i + 1),), 64) for i in range(100)]
    offsets, height = assign_addresses(random.sample(whole + short, 120))
    assert height == sum(b.bytes for b in whole) + 64
    assert len(offsets) == 120


def test_blocks_without_any_time_lie_anywhere() -> None:
    assert assign_addresses([]) == ([], 0)
    assert assign_addresses([Block(64, ((5, 5),), 64), Block(8, ((3, 3),), 8)]) == ([0, 0], 64)


@pytest.mark.skipif(not DATA.is_dir(), reason="the MiniMalloc problems are not on this machine")
@pytest.mark.parametrize("name", ["A", "B", "C", "G", "I", "J"])
def test_minimalloc_problems_fit_their_capacity(name: str) -> None:
    blocks = read_buffers(DATA / f"{name}.1048576.csv").blocks
    capacity = 1_039_360 if name == "C" else 1_048_576
    packing = pack(blocks, capacity)
    check(blocks, packing.offsets, packing.height)
    assert packing.height <= capacity


def nearly_full(seed: int) -> list[Block]:
    """A cut rectangle in the middle of a step that is half empty before and behind it."""
    random = Random(seed)
    middle = [Block(64 * b.bytes, b.spans, 64) for b in cut_rectangle(60, seed)]
    around = [
        Block(64 * random.randint(1, 40), ((at, at + random.randint(20, 300)),), 64)
        for at in [*range(-8000, -300, 20), *range(4100, 12000, 20)]
    ]
    return random.sample(middle + around, len(middle) + len(around))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_alive_while_memory_is_full_is_laid_without_a_hole(seed: int) -> None:
    blocks = nearly_full(seed)
    offsets, height = assign_addresses(blocks)
    check(blocks, offsets, height)
    assert height == most_alive(blocks) == 64 * 4096


@given(st.lists(a_block(40, (1, 2, 4, 8)), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_blocks_lie_at_the_same_addresses_however_many_they_are(blocks: list[Block]) -> None:
    problem = make_problem(blocks)
    for sequence in sequences(problem):
        found = first_fit(problem, None, sequence)
        assert found.tolist() == first_fit(problem, Overlaps(problem), sequence).tolist()


@given(st.lists(a_block(40, (1, 2, 4, 8)), min_size=1, max_size=40), st.booleans())
@settings(max_examples=60, deadline=None)
def test_first_fit_is_given_up_only_where_a_block_ends_no_lower_than_it_has_to(blocks: list[Block], many: bool) -> None:
    problem = make_problem(blocks)
    overlaps = None if many else Overlaps(problem)
    for sequence in sequences(problem):
        offsets = first_fit(problem, overlaps, sequence)
        height = int((offsets + problem.size).max())
        assert first_fit_below(problem, overlaps, sequence, height) is None
        found = first_fit_below(problem, overlaps, sequence, height + 1)
        assert found is not None and found.tolist() == offsets.tolist()


@given(st.lists(a_block(300, (64,)) | a_whole_line(), min_size=2, max_size=40), st.floats(0.3, 0.95))
@settings(max_examples=60, deadline=None)
def test_a_core_lies_without_overlaps_and_the_rest_around_it(blocks: list[Block], share: float) -> None:
    problem = make_problem(blocks)
    core = core_of(problem, share)
    answer, found, nodes = search_core(core, 2 * int(problem.size.sum()) + 64 * len(blocks), 1000)
    assert answer == "found" and found is not None and nodes <= 1000
    laid = laid_around(problem, core, found)
    offsets = first_fit(laid, Overlaps(laid), sequences(laid)[0])
    check(blocks, offsets.tolist(), int((offsets + problem.size).max()))
