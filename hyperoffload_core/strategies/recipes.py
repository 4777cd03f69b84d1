"""Ways to choose gaps that the search of strategy `hyperoffload` follows, the most promising first."""

from __future__ import annotations

from dataclasses import dataclass

from hyperoffload_core.passes.choice import LINK_WEIGHT


@dataclass(frozen=True)
class Recipe:
    """One way to choose gaps: ``exact`` as of `passes.selection.find_candidates`, weights of `passes.choice.Choosing`.

    ``part_of_largest``: none of a storage larger than one in so many of the largest that could leave. ``room``: again
    with so much of the largest transfer left free. ``in_parts``: all gaps at once (`passes.covering`), then rounded.
    ``measured``: by the times of the best placement so far.
    """

    exact: bool
    link_weight: float
    home_weight: float = 1.0
    part_of_largest: int | None = None
    room: float | None = None
    in_parts: bool = False
    measured: bool = False


RECIPES = (
    Recipe(exact=True, link_weight=LINK_WEIGHT),
    Recipe(exact=False, link_weight=1e6),
    Recipe(exact=True, link_weight=LINK_WEIGHT, part_of_largest=8),
    Recipe(exact=False, link_weight=LINK_WEIGHT, part_of_largest=8, room=1.0),
    Recipe(exact=False, link_weight=1e6, home_weight=3),
    Recipe(exact=False, link_weight=LINK_WEIGHT, home_weight=3),
    Recipe(exact=True, link_weight=1e6, home_weight=3),
    Recipe(exact=False, link_weight=1e6, part_of_largest=2, room=1.0),
    Recipe(exact=False, link_weight=LINK_WEIGHT, part_of_largest=8),
    Recipe(exact=False, link_weight=LINK_WEIGHT),
    Recipe(exact=True, link_weight=1e6),
    Recipe(exact=False, link_weight=1e6, part_of_largest=2),
    Recipe(exact=False, link_weight=1e6, part_of_largest=2, room=0.5),
    Recipe(exact=False, link_weight=LINK_WEIGHT, part_of_largest=2, room=0.25),
    Recipe(exact=False, link_weight=LINK_WEIGHT, part_of_largest=8, room=0.5),
)
PARTS = Recipe(exact=False, link_weight=LINK_WEIGHT, in_parts=True)
EXACT_PARTS = Recipe(exact=True, link_weight=LINK_WEIGHT, in_parts=True)
MEASURED_PARTS = Recipe(exact=True, link_weight=LINK_WEIGHT, in_parts=True, measured=True)
