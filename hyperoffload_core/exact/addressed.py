"""The exact search with addresses.

Used where the shortest step by live bytes has no addresses within the limit. Addresses are never chosen: a state knows
which blocks were on the device together (`exact.neighbours`), and goes on as long as they have an assignment. A valid
copy that is used again was there beside whatever came in between; instead it may come in anew, at another address.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from hyperoffload_core.exact.neighbours import History, Neighbours, Signature
from hyperoffload_core.exact.search import OutOfTime, Search, from_now
from hyperoffload_core.exact.states import Start, State, Times


class AddressedSearch(Search):
    """States also differ in which blocks were there together."""

    @cached_property
    def live(self) -> Search:
        """The search by live bytes, whose bounds hold here too."""
        return Search(self.instance, self.deadline, self.check)

    @cached_property
    def _met(self) -> set[tuple[State, Times]]:
        """From where the bound on the rest of the step is met by live bytes."""
        return set()

    @cached_property
    def neighbours(self) -> Neighbours:
        return Neighbours(self.instance)

    @property
    def all_decided(self) -> bool:
        """Whether addresses were found or refuted whenever they were asked for, so that what was found is the best."""
        return not self.neighbours.gave_up

    def initial(self) -> Iterator[tuple[State, Times, History | None]]:
        for state, times, _ in super().initial():
            history = self.neighbours.at_start(state[2], state[6])
            if history is not None:
                yield state, times, history

    def successors(
        self, state: State, times: Times, history: History | None
    ) -> Iterator[tuple[State, Times, Start, History | None]]:
        """As without addresses, as long as there are some."""
        assert history is not None
        x, bytes_of = self.instance, self.outlook.bytes_of
        again = sum(1 << s for s, blocks in enumerate(history.since) if blocks)
        for choice in self.choices(state, again, history.staying):
            held = bytes_of(choice.device) + (x.workspace_bytes[choice.running] if choice.running >= 0 else 0)
            over = held + (x.size_bytes[choice.fetch] if choice.fetch >= 0 else 0) - x.limit_bytes
            started = state[0] | (1 << choice.running if choice.running >= 0 else 0)
            idle = self.outlook.pending(started).idle
            for eviction in self._evictions(choice.clean, over - bytes_of(choice.worthless)):
                start = Start(times[0], choice.op, choice.store, choice.fetch, eviction | choice.worthless)
                then, times_then = self.proceed(state, times, choice, start)
                for after in self.neighbours.after(history, state, choice.running, choice.remote, start, then, idle):
                    if not self.finished(then):
                        yield then, times_then, start, after
                    elif (ended := self.neighbours.at_end(after, then[6])) is not None:
                        yield then, times_then, start, ended

    def signature(self, history: History | None) -> Signature | None:
        return None if history is None else self.neighbours.signature(history)

    def closer_bound(self, state: State, times: Times, known_ns: int) -> int:
        """As much of the rest of the step by live bytes as is needed to tell whether it ends by ``known_ns``."""
        now, key = times[0], (state, from_now(times))
        rest_ns = self.live.rest_ns
        if key not in self._met and now + rest_ns.get(key, 0) <= known_ns:
            try:
                if self.live.run(known_ns + 1 - now, start=key) is not None:
                    self._met.add(key)
            except OutOfTime:
                return 0  # the search itself is about to stop, with a bound on the whole step
        return now + rest_ns.get(key, 0)

    def _learn(self, *_: object) -> None:
        """What is found with addresses is no bound without."""
