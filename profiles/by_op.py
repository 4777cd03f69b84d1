"""Profiles along the axis of their aligned ops instead of time, so that a slow and a fast run lie over each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.recording import Profile
from profiles.alignment import Identity, align_ops
from profiles.series import memory_curve

Column = NDArray[np.int64]


@dataclass(frozen=True)
class OpCourse:
    """One profile by op, in the order of its run: ``place`` on the axis (ascending), ``op`` the op's id in the
    profile's graph, ``bytes`` the most that the device held from its start until the next op began (so the highest of
    all is the step's peak), ``end_ns`` when it ended. ``behind_ns[i]`` is how much later than in the baseline op
    ``shared[i]`` of these ended, for those that stand over the same op of the baseline."""

    place: Column
    op: Column
    bytes: Column
    end_ns: Column
    shared: Column
    behind_ns: Column


@dataclass(frozen=True)
class ByOp:
    """``order`` names the places of the axis."""

    order: tuple[Identity, ...]
    courses: tuple[OpCourse, ...]


def by_op(profiles: Sequence[Profile], baseline: int = 0) -> ByOp:
    """The median step of each profile along one axis of ops (`profiles.alignment`)."""
    aligned = align_ops(profiles, baseline)
    ends = [_events(p)[2] for p in profiles]
    reference = np.full(len(aligned.order), -1, dtype=np.int64)
    reference[aligned.places[baseline]] = ends[baseline]
    courses = []
    for profile, place, end in zip(profiles, aligned.places, ends, strict=True):
        op, start, _ = _events(profile)
        shared = np.flatnonzero(reference[place] >= 0)
        behind = end[shared] - reference[place][shared]
        courses.append(OpCourse(place, op, _most(profile, start), end, shared, behind))
    return ByOp(aligned.order, tuple(courses))


def _events(profile: Profile) -> tuple[Column, Column, Column]:
    """Op, start and end of everything the median step ran, in the order in which it began."""
    rows = np.flatnonzero(profile.ops.step == profile.median_step)
    rows = rows[np.argsort(profile.ops.start_ns[rows], kind="stable")]
    return profile.ops.op[rows], profile.ops.start_ns[rows], profile.ops.end_ns[rows]


def _most(profile: Profile, start_ns: Column) -> Column:
    """The most held from each start (the first: from the beginning) until the next one (the last: to the end)."""
    curve = memory_curve(profile, profile.median_step)
    if not len(curve.times_ns) or not len(start_ns):
        return np.zeros(len(start_ns), dtype=np.int64)
    begin = np.maximum(np.searchsorted(curve.times_ns, start_ns, side="right") - 1, 0)
    begin[0] = 0
    end = np.append(np.searchsorted(curve.times_ns, start_ns[1:], side="left"), len(curve.times_ns))
    total = np.append(curve.total, 0)
    # Of each pair of bounds the first gives the largest between them; the second gives what lies between two pairs.
    bounds = np.stack([begin, np.maximum(end, begin)], axis=1).ravel()
    return np.asarray(np.maximum.reduceat(total, bounds)[::2])
