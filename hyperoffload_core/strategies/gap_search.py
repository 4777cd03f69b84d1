"""The search of strategy `hyperoffload`: which reuse gaps to leave so that the placed step is short.

Orders of the ops are tried with several ways to choose gaps (recipes); then all gaps of a small graph are chosen at
once, measured by the times of the best placement; then a few gaps at a time are exchanged for others, each time placed
anew; then the gap behind the worst stall is forbidden and a few gaps at a time are given up and chosen again, until the
bound is reached or the work is done that the effort allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from hyperoffload_core.passes.choice import LINK_WEIGHT, Choosing, Chosen
from hyperoffload_core.passes.covering import cover
from hyperoffload_core.passes.exchange import Exchange
from hyperoffload_core.passes.improving import improve
from hyperoffload_core.passes.insertion import insert_cache_operators
from hyperoffload_core.passes.placement import place
from hyperoffload_core.passes.play import NoPlacementError
from hyperoffload_core.passes.selection import (
    Candidates,
    Choice,
    Estimate,
    find_candidates,
    gap_sets,
    plain_estimate,
    resident_slots,
)
from hyperoffload_core.strategies.base import Request
from hyperoffload_core.strategies.planned import NEVER
from hyperoffload_core.strategies.recipes import EXACT_PARTS, MEASURED_PARTS, PARTS, RECIPES, Recipe
from hyperoffload_core.strategies.solutions import Solution, Variant, suspects
from hyperoffload_core.strategies.work import Work

_SMALLEST_PART = 1000
"""Choosing all gaps of a small graph at once leaves out those of less than one in so many of the bytes too many."""
SMALL_OPS = 1000
"""A graph of so many ops is worth a second of search more."""
_MANY_OPS = 5000
"""In a graph of more ops a greedy choice takes longer than a linear program."""
_EACH_ORDER, _FAR = 3, 1.02
"""So many recipes that give a choice are followed for each order; then one whose best choice is so much longer is left
alone."""
_WHOLE_SECONDS = {"fast": 0.5, "normal": 4.0, "best": 12.0}
"""Time for an answer in whole numbers; most take less than a tenth of it."""
_IDLE_EXCHANGES = 2000
"""It ends after so many neighbours in a row of which none was better."""
_CLOSE = 1.01
"""So near the bound gaps are not chosen again all at once. In a graph that is not small no more than two recipes are
followed then, unless the effort is to find the best: there each costs more than it may gain."""
_IDLE_ROUNDS = 40
"""The search ends after so many rounds in a row that found nothing better."""
_ROUNDS = 12
"""Rounds of the search for better gaps between two placements."""


def in_a_hurry(request: Request) -> bool:
    """Whether a person waits for the plan of a graph for which everything takes a while."""
    return request.options.get("effort") == "fast" and len(request.graph.ops) > SMALL_OPS


class Search:
    """The best solution so far within ``target`` bytes, and the ways to a better one, cheapest first, until so many
    seconds of work are done."""

    def __init__(self, request: Request, target_bytes: int, bound_ns: int, work: Work, until: float) -> None:
        self.request, self.target = request, target_bytes
        self.bound, self.work, self.until = bound_ns, work, until
        self.effort = str(request.options.get("effort", "normal"))
        self.wide = self._small() and self.effort != "fast"
        self.best: Solution | None = None
        self.tried: set[tuple[int, frozenset[Choice]]] = set()
        self.rng = Random(1)
        self.candidates: dict[tuple[int, bool], Candidates] = {}

    def run(self, variants: Sequence[Variant], before: Solution | None) -> Solution | None:
        """``before`` is the solution found with more memory, from which it starts."""
        if before is not None:
            variant = before.variant
            inside = self._choosing(variant, Recipe(exact=False, link_weight=LINK_WEIGHT))
            for choosing in (self._measuring(before), inside):
                if self.best is None or not self._over():
                    self._try(variant, self._filled(choosing, choosing.start_from(before.choices)))
            if self.best is not None:
                self._search_near(self.best)
        least: dict[int, float] = {}
        answered = set[int]()
        for number, recipe in enumerate(self._recipes() if self.best is None else ()):
            for variant in variants:
                if self.best is not None and (self._over() or (number > 1 and self._near())):
                    break
                far = least.get(id(variant), NEVER) > _FAR * min(least.values(), default=NEVER)
                other = self.best is not None and variant is not self.best.variant and not self._small()
                if (far and len(answered - {number}) >= _EACH_ORDER) or (recipe.in_parts and (far or other)):
                    continue
                if (chosen := self._follow(variant, recipe)) is not None:
                    least[id(variant)] = min(chosen.step_ns, least.get(id(variant), NEVER))
                    answered.add(number)
        if before is None and self.best is not None and self.wide and self.best.placement.step_ns > self.bound * _CLOSE:
            self._search_near(self.best)
            self._cover_near(self.best)
            self._cover_again(self.best.cost)
        idle = 0
        while self.best is not None and not self._over() and not self._near():
            cost = self.best.cost
            self._without_suspects(self.best)
            self._search_near(self.best)
            if self.wide and before is None and self.best.cost != cost:
                self._cover_again(self.best.cost)
            idle = idle + 1 if self.best.cost == cost else 0
            if idle > _IDLE_ROUNDS:
                break
        return self.best

    def _over(self) -> bool:
        self.request.check_cancelled()
        enough = self._at_bound() or (in_a_hurry(self.request) and self._near())
        return enough or self.work.seconds >= self.until

    def _near(self) -> bool:
        """Whether what may still be gained is not worth much time."""
        near = self.best is not None and self.best.placement.step_ns <= self.bound * _CLOSE
        return near and not self._small() and self.effort != "best"

    def _at_bound(self) -> bool:
        return self.best is not None and self.best.placement.step_ns <= self.bound

    def _small(self) -> bool:
        return len(self.request.graph.ops) <= SMALL_OPS

    def _recipes(self) -> tuple[Recipe, ...]:
        """All gaps at once come second where time is over before all recipes have been followed, and first where one
        has to do or a greedy choice takes the longer."""
        if self._small():
            return (*RECIPES, PARTS, EXACT_PARTS)
        if len(self.request.graph.ops) > _MANY_OPS:
            return (EXACT_PARTS, MEASURED_PARTS, RECIPES[0], PARTS, *RECIPES[1:])
        first = (PARTS, RECIPES[0]) if in_a_hurry(self.request) else (RECIPES[0], PARTS)
        return (*first, *RECIPES[1:], EXACT_PARTS)

    def _choosing(self, variant: Variant, recipe: Recipe, margin_bytes: int = 0) -> Choosing:
        key = (id(variant), recipe.exact)
        if key not in self.candidates:
            estimate = plain_estimate(variant.problem)
            self.candidates[key] = find_candidates(variant.problem, variant.gaps, estimate, exact=recipe.exact)
        candidates = self.candidates[key]
        largest = None
        if recipe.part_of_largest is not None and len(candidates.bytes):
            largest = int(candidates.bytes.max()) // recipe.part_of_largest
        limit = self.target - margin_bytes
        return Choosing(variant.problem, variant.uses, self.request.actions, candidates, limit, largest)

    def _filled(self, choosing: Choosing, chosen: Chosen | None) -> Chosen | None:
        """What was chosen, with the work it took."""
        self.work.fill(choosing.rounds, choosing.slots, len(choosing.available))
        choosing.rounds = 0
        return chosen

    def _follow(self, variant: Variant, recipe: Recipe) -> Chosen | None:
        if recipe.measured:
            if self.best is None or self.best.variant is not variant:
                return None
            choosing = self._measuring(self.best)
        else:
            choosing = self._choosing(variant, recipe)
        if recipe.in_parts:
            chosen = self._covering(variant, choosing)
        else:
            chosen = self._filled(choosing, choosing.greedy(recipe.link_weight, recipe.home_weight))
        if chosen is not None and recipe.room is not None and chosen.choices:
            # Room for (part of) one more transfer in flight, so that the link need not wait for memory.
            sizes = variant.problem.storage_bytes
            margin = int(recipe.room * max(sizes[storage] for storage, _ in chosen.choices))
            choosing = self._choosing(variant, recipe, margin_bytes=margin)
            chosen = self._filled(choosing, choosing.greedy(recipe.link_weight, recipe.home_weight))
        self._try(variant, chosen)
        return chosen

    def _covering(
        self, variant: Variant, choosing: Choosing, whole_with: frozenset[Choice] | None = None
    ) -> Chosen | None:
        c = choosing.c
        enough = np.ones(len(c.bytes), np.bool_)
        if self._small():
            enough = c.bytes * _SMALLEST_PART >= resident_slots(variant.problem, variant.uses).max() - self.target
        rows = None
        if whole_with is not None:
            rows = np.array([choice in whole_with for choice in zip(c.storage.tolist(), c.index.tolist(), strict=True)])
        self.work.cover(int(enough.sum()), whole=rows is not None)
        parts = cover(variant.problem, variant.uses, c, self.target, enough, rows, _WHOLE_SECONDS[self.effort])
        return None if parts is None else self._filled(choosing, choosing.round_off(parts))

    def _cover_near(self, solution: Solution) -> None:
        """Choose all gaps at once, measured by the times of a solution."""
        variant = solution.variant
        choosing = self._measuring(solution)
        chosen = self._covering(variant, choosing, whole_with=solution.choices)
        self._try(variant, chosen)
        if chosen is not None:
            self._try(variant, self._filled(choosing, improve(choosing, chosen, self.rng, self.bound, _ROUNDS)))

    def _cover_again(self, cost: tuple[int, int] | None) -> None:
        """Choose all gaps at once around the best solution, again while that makes it better and there is time."""
        while self.best is not None and cost is not None:
            self._cover_near(self.best)
            cost = self.best.cost if self.best.cost < cost and not self._over() else None

    def _measuring(self, solution: Solution) -> Choosing:
        """Nothing chosen yet, of gaps measured by the times of a solution."""
        variant, placement = solution.variant, solution.placement
        times = Estimate(np.array(placement.op_start_ns, np.int64), np.array(placement.op_end_ns, np.int64))
        candidates = find_candidates(variant.problem, variant.gaps, times, exact=True)
        return Choosing(variant.problem, variant.uses, self.request.actions, candidates, self.target)

    def _try(self, variant: Variant, chosen: Chosen | None) -> bool:
        """Place what was chosen, unless that cannot be better; whether it is."""
        if chosen is None or (self.best is not None and chosen.step_ns >= self.best.placement.step_ns):
            return False
        key = (id(variant), chosen.choices)
        if key in self.tried:
            return False
        self.tried.add(key)
        return self._offer(self._placed(variant, chosen.choices))

    def _placed(self, variant: Variant, choices: frozenset[Choice], rounds: int = 3) -> Solution | None:
        uses = variant.uses
        self.work.place(len(variant.problem.order), len(choices), rounds)
        sets = gap_sets(choices, uses, variant.problem.idle)
        inserted = insert_cache_operators(self.request.graph, uses, *sets, variant.throughout)
        try:
            return Solution(variant, choices, place(variant.problem, inserted, self.target, rounds=rounds))
        except NoPlacementError:
            return None

    def _offer(self, solution: Solution | None) -> bool:
        """Take a solution as the best one so far; whether it is."""
        if solution is None or (self.best is not None and solution.cost >= self.best.cost):
            return False
        self.best = solution
        above = solution.placement.step_ns / self.bound - 1
        self.request.progress(0.5, f"choosing what leaves the device: {above:.1%} above the bound")
        return True

    def exchange(self, solution: Solution, turn: int = 0) -> list[Solution]:
        """Go from neighbour to neighbour of a solution while none is worse than the one before, until the bound or the
        end; that solution within the target and those that were better than all before, the best one last.

        Other neighbours are drawn in another ``turn``.
        """
        variant = solution.variant
        choosing = self._choosing(variant, Recipe(exact=False, link_weight=LINK_WEIGHT))
        chosen = choosing.start_from(solution.choices, settle=False)
        current = None if chosen is None else self._placed(variant, chosen.choices, rounds=1)
        self.best = None if chosen is None else self._placed(variant, chosen.choices)
        if current is None or self.best is None:
            return []
        better = [self.best]
        exchange, idle = Exchange(choosing, Random(turn)), 0
        while not self._over() and idle < _IDLE_EXCHANGES:
            idle += 1
            choices = exchange.neighbour()
            if choices is None:
                continue
            key = (id(variant), choices)
            found = None if key in self.tried else self._placed(variant, choices, rounds=1)
            self.tried.add(key)
            if found is None or found.cost > current.cost:
                exchange.back()
                continue
            if found.cost < current.cost:
                idle = 0
                if self._offer(self._placed(variant, choices)):
                    better.append(self.best)
            current = found
        return better

    def _without_suspects(self, solution: Solution) -> None:
        """Forbid the gap behind one of the worst stalls and choose again, as long as that helps."""
        for barred in suspects(solution):
            for exact in (False, True):
                if self._over():
                    return
                recipe = Recipe(exact=exact, link_weight=LINK_WEIGHT)
                choosing = self._choosing(solution.variant, recipe)
                choosing.bar(barred)
                chosen = self._filled(choosing, choosing.start_from(solution.choices - barred))
                if self._try(solution.variant, chosen):
                    return

    def _search_near(self, solution: Solution) -> None:
        """Search around a solution, with gaps measured by its times and by what lies strictly inside them."""
        variant = solution.variant
        inside = self._choosing(variant, Recipe(exact=False, link_weight=LINK_WEIGHT))
        for choosing in (self._measuring(solution), inside):
            if self._over():
                return
            chosen = self._filled(choosing, choosing.start_from(solution.choices))
            if chosen is None:
                continue
            self._try(variant, chosen)
            self._try(variant, self._filled(choosing, improve(choosing, chosen, self.rng, self.bound, _ROUNDS)))
