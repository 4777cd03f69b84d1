"""Ops and storages of several profiles brought together by what they are, never by when they ran.

An op is itself in every run of its graph, in whatever order a schedule runs it. In another graph its counterpart is the
op of the same name (MindSpore names an op by its layer, its primitive and a number in the layer, so blocks of a deeper
or differently sized model find each other). A recomputed op is the second (third, ...) run of its original, and so are
the storages it writes: they have no counterpart in a profile that does not recompute them.

Tables bring ops together by that alone. For charts there is an axis as well, on which every run goes from left to
right: the ops that stay in order stand over each other, as in a comparison of two texts; an op that a run moves
elsewhere stands where it runs, beside its place in the baseline.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.recording import Profile

Column = NDArray[np.int64]


class Identity(NamedTuple):
    """``occurrence`` counts the ops of one name in captured order, ``run`` the second runs of one op; both from 0."""

    name: str
    occurrence: int
    run: int


class _Named(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def recompute_of(self) -> int | None: ...


@dataclass(frozen=True)
class Alignment:
    """One axis for the ops that the profiles ran.

    ``order[place]`` is the identity at a place; ``places[profile][k]`` the place of the k-th op of its run, ascending.
    The baseline's ops have one place each, in the order in which it ran them; what others ran in between, or in
    another order, is inserted there, so that an identity may have several places.
    """

    order: tuple[Identity, ...]
    places: tuple[Column, ...]

    def reordered(self, profile: int, baseline: int) -> bool:
        """Whether the profile runs an op that the baseline runs too, but in another order."""
        inserted = np.setdiff1d(self.places[profile], self.places[baseline]).tolist()
        known = {self.order[place] for place in self.places[baseline].tolist()}
        return any(self.order[place] in known for place in inserted)


def identities(items: Sequence[_Named]) -> tuple[Identity, ...]:
    """What each op (or storage) of a graph is, by id."""
    seen: dict[str, int] = {}
    runs: Counter[int] = Counter()
    found: list[Identity] = []
    again: list[int] = []
    for number, item in enumerate(items):
        occurrence = 0
        if item.recompute_of is None:
            occurrence = seen.get(item.name, 0)
            seen[item.name] = occurrence + 1
        else:
            again.append(number)
        found.append(Identity(item.name, occurrence, 0))
    # A second run may stand before the op that it runs again.
    for number in again:
        original = items[number].recompute_of
        assert original is not None
        runs[original] += 1
        found[number] = found[original]._replace(run=runs[original])
    return tuple(found)


def identities_of(profiles: Sequence[Profile], of: Literal["ops", "storages"]) -> list[tuple[Identity, ...]]:
    """`identities` of each profile's ops or storages; profiles of one graph share them."""
    known: dict[int, tuple[Identity, ...]] = {}
    found = []
    for profile in profiles:
        graph = profile.schedule.graph
        items: Sequence[_Named] = graph.ops if of == "ops" else graph.storages
        if id(items) not in known:
            known[id(items)] = identities(items)
        found.append(known[id(items)])
    return found


def align_ops(
    profiles: Sequence[Profile], baseline: int = 0, known: Sequence[Sequence[Identity]] | None = None
) -> Alignment:
    """The axis of all profiles' ops, by the order in which their median steps ran them. O(n log n) for each profile.

    ``known`` are the identities of their ops, where the caller has them already.
    """
    known = known or identities_of(profiles, "ops")
    runs = [[own[op] for op in ran(p).tolist()] for p, own in zip(profiles, known, strict=True)]
    # Nodes of the axis as a linked list: node 0 stands before the first.
    names: list[Identity | None] = [None]
    following: list[int] = [-1]
    nodes: list[list[int]] = [[] for _ in profiles]
    for number in (baseline, *(n for n in range(len(profiles)) if n != baseline)):
        axis = _walk(following)
        there = [names[node] for node in axis]
        same: list[int | None] = list(range(len(there)))
        matched = same if runs[number] == there else _longest_common(runs[number], there)
        at = 0
        for identity, place in zip(runs[number], matched, strict=True):
            if place is None:
                names.append(identity)
                following.append(following[at])
                following[at] = at = len(names) - 1
            else:
                at = axis[place]
            nodes[number].append(at)
    axis = _walk(following)
    place_of = np.empty(len(names), dtype=np.int64)
    place_of[axis] = np.arange(len(axis))
    order = tuple(name for node in axis if (name := names[node]) is not None)
    return Alignment(order, tuple(place_of[np.array(own, dtype=np.int64)] for own in nodes))


def _walk(following: Sequence[int]) -> list[int]:
    axis, at = [], following[0]
    while at >= 0:
        axis.append(at)
        at = following[at]
    return axis


def _longest_common(run: Sequence[Identity], axis: Sequence[Identity | None]) -> list[int | None]:
    """For each op of a run its place on the axis, None for those that are not part of a longest common subsequence
    (J. W. Hunt and T. G. Szymanski, 1977)."""
    candidates: dict[Identity | None, list[int]] = {}
    for place in range(len(axis) - 1, -1, -1):
        candidates.setdefault(axis[place], []).append(place)
    # Of the common subsequences of each length the one that ends earliest: where, and by which choice of op and place.
    ends: list[int] = []
    choice_at: list[int] = []
    choices: list[tuple[int, int, int]] = []
    for number, identity in enumerate(run):
        for place in candidates.get(identity, ()):
            length = bisect_left(ends, place)
            choices.append((number, place, choice_at[length - 1] if length else -1))
            if length == len(ends):
                ends.append(place)
                choice_at.append(len(choices) - 1)
            else:
                ends[length], choice_at[length] = place, len(choices) - 1
    found: list[int | None] = [None] * len(run)
    at = choice_at[-1] if choice_at else -1
    while at >= 0:
        number, place, at = choices[at]
        found[number] = place
    return found


def ran(profile: Profile) -> Column:
    """The ops of the median step in the order in which they began."""
    rows = profile.ops.step == profile.median_step
    return profile.ops.op[rows][np.argsort(profile.ops.start_ns[rows], kind="stable")]
