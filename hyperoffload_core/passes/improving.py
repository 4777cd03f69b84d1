"""A search that makes a choice of gaps better: a few are given up at a time and what is missing is filled in again.

It judges by the least step time (`passes.loads`), which comes close to what the placed step takes and costs a fraction
of a placement.
"""

from __future__ import annotations

from random import Random

import numpy as np

from hyperoffload_core.passes.choice import LINK_WEIGHT, Choosing, Chosen

_LINK_WEIGHTS = (LINK_WEIGHT, LINK_WEIGHT, 0.3, 1e6)
"""Of these a round draws what a gap's own link time counts; with the last only bytes per link time count."""
_HOME_WEIGHTS = (0.3, 1.0, 1.0, 3.0, 10.0)
"""Of these a round draws how many times a home in the pool counts."""
_POOLING = 0.2
"""The part of the rounds that gives storages a home in the pool instead of giving choices up."""
_MOST_GIVEN_UP = 5
"""Choices a round gives up at the most."""


def improve(choosing: Choosing, current: Chosen, rng: Random, goal_ns: float, rounds: int) -> Chosen:
    """Give up a few choices and fill in again, for some rounds or until the goal is reached.

    ``current`` is what ``choosing`` holds. Equal results are accepted as well, so that plateaus are crossed.
    """
    best = current
    turn = 0
    while best.step_ns > goal_ns and len(choosing.taken) > choosing.forced and turn < rounds:
        turn += 1
        saved = choosing.save()
        given_up = []
        pooling = choosing.poolable() if rng.random() < _POOLING else []
        if pooling:
            for row in rng.sample(pooling, min(len(pooling), rng.randint(1, _MOST_GIVEN_UP))):
                choosing.take(row)
        else:
            given_up = _to_give_up(choosing, rng)
        for row in given_up:
            choosing.give_up(row)
        barred = given_up[: rng.randint(0, len(given_up))]
        choosing.barred[barred] = True
        choosing.load()
        choosing.link_weight = rng.choice(_LINK_WEIGHTS)
        choosing.preference = np.where(choosing.c.wrap, rng.choice(_HOME_WEIGHTS), 1.0)
        found = choosing.settled() if choosing.fill(rng) else None
        choosing.barred[barred] = False
        if found is None or found.cost > current.cost:
            choosing.restore(saved)
            continue
        current = found
        if found.cost < best.cost:
            best = found
    return best


def _to_give_up(choosing: Choosing, rng: Random) -> list[int]:
    """A few choices: any, those next to the slot that decides the step, neighbours in time, or of like size."""
    rows = list(choosing.taken)[choosing.forced :]
    count = min(len(rows), rng.randint(1, _MOST_GIVEN_UP))
    kind = rng.random()
    if kind < 0.3:
        return rng.sample(rows, count)
    need, written, size = choosing.c.need[rows], choosing.written[rows], choosing.c.bytes[rows]
    if kind < 0.6:
        slot = choosing.loads.binding_slot
        distance = np.minimum(np.abs(need - slot), np.abs(written - slot))
        near = np.argsort(distance, kind="stable")[: 3 * count]
        return [rows[place] for place in rng.sample(near.tolist(), min(count, len(near)))]
    centre = rng.randrange(len(rows))
    key = need if kind < 0.8 else size
    return [rows[place] for place in np.argsort(np.abs(key - key[centre]), kind="stable")[:count].tolist()]
