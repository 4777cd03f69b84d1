"""The exact search with addresses.

Used where the shortest step by live bytes has no addresses within the limit. Addresses are never chosen: a state knows
which blocks were on the device together (`exact.neighbours`), and goes on as long as they have an assignment. A valid
copy that is used again was there beside whatever came in between; instead it may come in anew, at another address.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from hyperoffload_core.exact.labels import Label, Signature, covered
from hyperoffload_core.exact.neighbours import History, Neighbours
from hyperoffload_core.exact.search import Node, OutOfTime, Search
from hyperoffload_core.exact.states import Found, Start, State, Times, from_now

_MOST_OF_A_STATE = 3
"""States of a beam that differ in times and addresses alone; more of them would crowd out others."""


@dataclass
class AddressedSearch(Search):
    """States also differ in which blocks were there together; ``live`` is the search by live bytes, whose bounds hold
    here too."""

    live: Search = field(init=False)
    dives: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.live = Search(self.instance, self.deadline, self.check)
        self.neighbours = Neighbours(self.instance)

    @property
    def all_decided(self) -> bool:
        """Whether addresses were found or refuted whenever they were asked for, so that what was found is the best."""
        return not self.neighbours.gave_up

    def beam(self, best_ns: int, width: int, deadline: float) -> Found | None:
        """A step below ``best_ns``, found quickly or not at all; it says nothing of those that were not found.

        The states after as many starts stand side by side, and only ``width`` of them go on: those with the lowest
        bound, of these the ones with the most ops run, then those whose blocks were least together. What is found
        until ``deadline`` counts.
        """
        nodes: list[Node] = []
        labels: dict[State, list[Label]] = {}
        following: list[tuple[int, int, int, int]] = []
        found: Found | None = None

        def push(
            state: State, times: Times, moved: int, parent: int, begun: Start | None, history: History | None
        ) -> None:
            bound_ns, _ = self.outlook.bound(state, times)
            if bound_ns < best_ns:
                bound_ns = max(bound_ns, self.closer_bound(state, times, bound_ns, best_ns))
            if bound_ns >= best_ns:
                return
            known = labels.setdefault(state, [])
            for then in self.histories(history, nodes[parent][0] if parent >= 0 else None, begun, state):
                signature = self.signature(then)
                label = (times, signature)
                if not covered(label, known):
                    known.append(label)
                    together = 0 if signature is None else signature.all.bit_count()
                    following.append((bound_ns, -state[0].bit_count(), together, len(nodes)))
                    nodes.append((state, times, moved, parent, begun, then, label))

        for state, times in self.initial():
            push(state, times, 0, -1, None, None)
        while following:
            layer, following = sorted(following), []
            going_on: dict[State, int] = {}
            for bound_ns, _, _, index in layer:
                state, times, moved, _, _, history, _ = nodes[index]
                if bound_ns >= best_ns or sum(going_on.values()) >= width:
                    break
                if self.finished(state):
                    best_ns, found = times[0], self._found(nodes, index, times[0])
                    continue
                self.check()
                if time.process_time() > deadline:
                    return found
                if going_on.setdefault(state, 0) < _MOST_OF_A_STATE:
                    going_on[state] += 1
                    self.expanded += 1
                    for next_state, next_times, begun in self.successors(state, times, history):
                        push(next_state, next_times, moved + self._bytes_of(begun), index, begun, history)
        return found

    def histories(
        self, history: History | None, before: State | None, begun: Start | None, then: State
    ) -> Iterable[History | None]:
        if history is None or before is None or begun is None:
            first = self.neighbours.at_start(then[2], then[6])
            return () if first is None else (first,)
        running = max(before[1], begun.op)
        idle = self.outlook.pending(before[0] | (1 << running if running >= 0 else 0)).idle
        after = self.neighbours.after(history, before, running, begun, then, idle)
        if not self.finished(then):
            return after
        return (ended for one in after if (ended := self.neighbours.at_end(one, then[6])) is not None)

    def signature(self, history: History | None) -> Signature | None:
        return None if history is None else self.neighbours.signature(history)

    def closer_bound(self, state: State, times: Times, known_ns: int, best_ns: int) -> int:
        """The rest of the step by live bytes, exactly if it does not end by ``known_ns``."""
        now, key = times[0], (state, from_now(times))
        rest_ns = self.live.rest_ns
        if key not in self.live.met and now + rest_ns.get(key, 0) <= known_ns:
            try:
                if self.live.run(known_ns + 1 - now, start=key) is None:
                    self.live.run(best_ns - now, start=key)
            except OutOfTime:
                return 0  # the search itself is about to stop, with a bound on the whole step
        return now + rest_ns.get(key, 0)

    def _learn(self, *_: object) -> None:
        """What is found with addresses is no bound without."""
