"""Best-first search for the shortest step of a small graph, then for the fewest moved bytes among shortest steps.

A state is what is on the device and in the pool, which ops have run, and what runs now until when. From a state any
idle stream (compute and each link) may start something or wait, and time then passes to the next end. That is enough:

1. In some optimal schedule every op and transfer starts with the step or at the moment another one ends. Take an
   optimal schedule and let every start move to the latest end that lies at or before it, in this order. No start moves
   later; two holds of memory that did not overlap still do not, so whatever overlaps now (intervals that overlap in
   pairs share a moment) was alive at one moment before and fits.
2. A valid copy on the device is given up only when something that starts needs its bytes, and then no more copies than
   needed: giving up costs nothing and can always wait.
3. Of two states that differ in time only, the one that is nowhere later can copy whatever follows the other.

The search expands states in the order of a bound that never exceeds the true step, so the first finished one is
optimal.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

from hyperoffload_core.exact.instance import Instance, bits
from hyperoffload_core.exact.labels import Label, Signature, covered, not_covered
from hyperoffload_core.exact.neighbours import History
from hyperoffload_core.exact.outlook import Outlook
from hyperoffload_core.exact.states import Choice, Found, Start, State, Times, from_now, nowhere_later

_NEVER = 1 << 62
_MOST_KEPT = 50_000
"""States whose choices are kept for when they return."""
Node = tuple[State, Times, int, int, Start | None, History | None, Label]
"""(state, its times, bytes moved so far, index of the node before, what started in between, blocks that were together
in a search with addresses, what other nodes of this state are compared with)."""


class OutOfTime(Exception):  # noqa: N818 - not a fault
    """The search was stopped; ``bound`` is a lower bound on what it was to minimise."""

    def __init__(self, bound: int) -> None:
        super().__init__(bound)
        self.bound = bound


@dataclass
class Search:
    """One instance, by live bytes. ``expanded`` counts states, over all runs; ``check`` may raise."""

    instance: Instance
    deadline: float = float("inf")
    check: Callable[[], None] = lambda: None
    expanded: int = 0
    outlook: Outlook = field(init=False)
    dives: ClassVar[bool] = False
    rest_ns: dict[tuple[State, Times], int] = field(init=False, default_factory=dict)
    """By state and times from now: a lower bound on the rest of the step."""
    met: set[tuple[State, Times]] = field(init=False, default_factory=set)
    """From where a step that meets that bound was found."""

    def __post_init__(self) -> None:
        self.outlook = Outlook(self.instance)
        self._known_options: dict[tuple[State, int, int], list[tuple[Choice, int]]] = {}
        self._evictions = lru_cache(maxsize=None)(self._work_out_evictions)

    def run(self, best_ns: int, best_bytes: int = -1, start: tuple[State, Times] | None = None) -> Found | None:
        """Without ``best_bytes``: the shortest step, None if it is not below ``best_ns``. With it: of the steps of at
        most ``best_ns`` the one that moves the fewest bytes, None if none moves less than ``best_bytes``.

        From the start of the step, or from the state ``start`` on; then only the duration is meant, and a state from
        which the rest is known is as good as the end. Raises `OutOfTime`.
        """
        count_bytes = best_bytes >= 0
        nodes: list[Node] = []
        labels: dict[State, list[Label]] = {}
        queue: list[tuple[int, int, int, int, int]] = []
        expanded: list[int] = []
        turned_down: list[int] = []

        def push(
            state: State, times: Times, moved: int, parent: int, begun: Start | None, history: History | None
        ) -> None:
            bound, more = self.outlook.bound(state, times)
            if bound > best_ns or (moved + more >= best_bytes if count_bytes else bound == best_ns):
                turned_down.append(bound)
                return
            reached = (*times, moved) if count_bytes else times
            known = labels.setdefault(state, [])
            for other, together in known:
                if together is None and nowhere_later(other, reached):
                    return
            before = nodes[parent][0] if parent >= 0 else None
            for then in self.histories(history, before, begun, state):
                label = (reached, self.signature(then))
                if covered(label, known):
                    continue
                if known:
                    known[:] = not_covered(known, label)
                known.append(label)
                nodes.append((state, times, moved, parent, begun, then, label))
                queue_up(bound, moved + more, len(nodes) - 1)

        def queue_up(bound: int, least_moved: int, index: int) -> None:
            ops_run, now = nodes[index][0][0].bit_count(), nodes[index][1][0]
            if count_bytes:
                heapq.heappush(queue, (least_moved, bound, -ops_run, -now, index))
            elif self.dives:
                heapq.heappush(queue, (bound, -ops_run, least_moved, -now, index))
            else:
                heapq.heappush(queue, (bound, least_moved, -ops_run, -now, index))

        for state, times in self.initial() if start is None else [start]:
            push(state, times, 0, -1, None, None)
        while queue:
            least, second, third, _, index = heapq.heappop(queue)
            state, times, moved, _, _, history, label = nodes[index]
            if not any(label is other for other in labels[state]):
                continue
            if self.finished(state):
                if not count_bytes:
                    self._learn(nodes, expanded, times[0], index)
                return self._found(nodes, index, times[0])
            self.expanded += 1
            if self.expanded & 15 == 0:
                self.check()
                if time.process_time() > self.deadline:
                    raise OutOfTime(least)
            bound, least_moved = (second, least) if count_bytes else (least, third if self.dives else second)
            closer = self.closer_bound(state, times, bound, best_ns + count_bytes)
            if closer > bound:
                if closer < best_ns + count_bytes:
                    queue_up(closer, least_moved, index)
                else:
                    turned_down.append(closer)
                continue
            if start is not None and (state, from_now(times)) in self.met:
                self._learn(nodes, expanded, closer, index)
                return self._found(nodes, index, closer)
            for next_state, next_times, begun in self.successors(state, times, history):
                push(next_state, next_times, moved + self._bytes_of(begun), index, begun, history)
            expanded.append(index)
        if not count_bytes:
            self._learn(nodes, expanded, min(turned_down, default=_NEVER))
        return None

    def initial(self) -> Iterator[tuple[State, Times]]:
        """Every choice of homes that fits when the step starts and when it ends."""
        x, bytes_of = self.instance, self.outlook.bytes_of
        free = x.given & x.used & x.movable
        overwritten = sum(1 << s for s in bits(free & ~x.persistent) if not self.outlook.accessors[s][0][1])
        choices = bits(free & ~x.offloaded & ~overwritten)
        kept = x.given & (x.used | x.persistent) & ~x.movable
        outputs = x.lasting & ~x.persistent
        for choice in range(1 << len(choices)):
            on_device = kept | sum(1 << s for k, s in enumerate(choices) if choice >> k & 1)
            if max(bytes_of(on_device), bytes_of(on_device & x.persistent | outputs)) <= x.limit_bytes:
                pool = free & ~on_device
                yield (0, -1, on_device, pool, -1, -1, pool & x.persistent), (0, 0, 0, 0)

    def choices(self, state: State, again: int, staying: int) -> Iterator[Choice]:
        """Whatever idle streams may start, memory left aside; not the choice to let nothing run at all.

        Clean storages of ``again`` may be fetched although they are there, ``staying`` ones do not leave.
        """
        x = self.instance
        done, running, device, remote, storing, fetching, pool = state
        arrived = device & ~(1 << fetching if fetching >= 0 else 0)
        stored = 1 << storing if storing >= 0 else 0
        link_busy = x.half_duplex and (storing >= 0 or fetching >= 0)
        for op in [-1, *(self._ready(done, arrived, stored) if running < 0 else ())]:
            now_running = running if op < 0 else op
            pending = self.outlook.pending(done | (1 << now_running if now_running >= 0 else 0))
            written, touched = (x.writes[now_running], x.touched[now_running]) if now_running >= 0 else (0, 0)
            fresh = touched & ~device
            remote_then = remote & ~written
            stores, fetches = [-1], [-1]
            if storing < 0 and not link_busy:
                stores += bits(arrived & ~remote_then & ~written & pending.needed & x.movable & ~staying)
            if fetching < 0 and not link_busy:
                wanted = remote_then & ~device & pending.needed & x.movable & ~(pending.idle & pool)
                fetches += bits(wanted & ~fresh & ~stored)
                fetches += bits(again & arrived & remote_then & ~touched & ~stored & pending.needed & ~staying)
            for store in stores:
                loose = arrived & x.movable & ~staying & ~touched & ~stored & ~(1 << store if store >= 0 else 0)
                for fetch in fetches:
                    if x.half_duplex and store >= 0 and fetch >= 0:
                        continue
                    if max(now_running, storing, fetching, store, fetch) < 0:
                        continue
                    there = device & ~(1 << fetch) if fetch >= 0 else device
                    worthless = loose & ~pending.needed
                    clean = loose & there & pending.needed & remote_then
                    yield Choice(op, store, fetch, now_running, there | fresh, remote_then, fresh, worthless, clean)

    def _ready(self, done: int, arrived: int, stored: int) -> list[int]:
        x = self.instance
        return [
            op
            for op in range(len(x.before))
            if not (done >> op & 1 or x.before[op] & ~done or x.reads[op] & ~arrived or x.writes[op] & stored)
        ]

    def successors(self, state: State, times: Times, history: History | None) -> Iterator[tuple[State, Times, Start]]:
        """(state at the next end, its times, what started) for each choice and each way to make room for it."""
        for choice, evicted in self._options(state, history):
            start = Start(times[0], choice.op, choice.store, choice.fetch, evicted)
            yield *self.proceed(state, times, choice, start), start

    def _options(self, state: State, history: History | None) -> Sequence[tuple[Choice, int]]:
        """Each choice with each set of storages that may leave to make room for it; kept for when the state returns."""
        key = (state, 0, 0) if history is None else (state, history.left_alone, history.staying)
        found = self._known_options.get(key)
        if found is None:
            x, bytes_of = self.instance, self.outlook.bytes_of
            found = []
            for choice in self.choices(*key):
                held = bytes_of(choice.device) + (x.workspace_bytes[choice.running] if choice.running >= 0 else 0)
                over = held + (x.size_bytes[choice.fetch] if choice.fetch >= 0 else 0) - x.limit_bytes
                for eviction in self._evictions(choice.clean, over - bytes_of(choice.worthless)):
                    found.append((choice, eviction | choice.worthless))
            if len(self._known_options) < _MOST_KEPT:
                self._known_options[key] = found
        return found

    def proceed(self, state: State, times: Times, choice: Choice, start: Start) -> tuple[State, Times]:
        """Start what was chosen and let time pass to the next end."""
        x, now = self.instance, times[0]
        done, _, _, _, storing, fetching, pool = state
        running, remote = choice.running, choice.remote
        device = choice.device & ~start.evicted | (1 << choice.fetch if choice.fetch >= 0 else 0)
        storing, fetching = max(storing, choice.store), max(fetching, choice.fetch)
        op_end = out_end = in_end = then = _NEVER
        if running >= 0:
            then = op_end = times[1] if choice.op < 0 else now + x.durations_ns[choice.op]
        if storing >= 0:
            out_end = times[2] if choice.store < 0 else now + x.out_ns[choice.store]
            then = min(then, out_end)
        if fetching >= 0:
            in_end = times[3] if choice.fetch < 0 else now + x.in_ns[choice.fetch]
            then = min(then, in_end)
        if op_end == then:
            done, running = done | 1 << running, -1
        if out_end == then:
            remote, storing = remote | 1 << storing, -1
        if in_end == then:
            fetching = -1
        started, busy = done, 0
        if running >= 0:
            started, busy = done | 1 << running, x.touched[running]
        if storing >= 0:
            busy |= 1 << storing
        pending = self.outlook.pending(started)
        device &= ~(pending.idle & ~busy & (~x.lasting | pool & remote))
        return (done, running, device, remote & pending.needed, storing, fetching, pool), (
            then,
            op_end if running >= 0 else then,
            out_end if storing >= 0 else then,
            in_end if fetching >= 0 else then,
        )

    def closer_bound(self, state: State, times: Times, known_ns: int, best_ns: int) -> int:  # noqa: ARG002
        """A lower bound on the step's end, where one beyond ``known_ns`` is known; what does not end before ``best_ns``
        is of no interest."""
        return times[0] + self.rest_ns.get((state, from_now(times)), 0)

    def histories(
        self,
        history: History | None,  # noqa: ARG002 - nothing is known, as `signature`
        before: State | None,  # noqa: ARG002
        begun: Start | None,  # noqa: ARG002
        then: State,  # noqa: ARG002
    ) -> Iterable[History | None]:
        """What may be known of addresses in ``then``, which follows on ``before``; nothing where there are none."""
        return (None,)

    def signature(self, history: History | None) -> Signature | None:  # noqa: ARG002
        """What of it counts when states are compared."""
        return None

    def finished(self, state: State) -> bool:
        x = self.instance
        done, running, device, remote, storing, fetching, pool = state
        if done != (1 << len(x.before)) - 1 or max(running, storing, fetching) >= 0:
            return False
        return not pool & ~remote and not x.lasting & x.used & ~pool & ~device

    def _work_out_evictions(self, clean: int, wanted_bytes: int) -> tuple[int, ...]:
        """Every inclusion-minimal set of clean storages that gives at least ``wanted_bytes``."""
        sizes = self.instance.size_bytes
        items = sorted(bits(clean), key=lambda s: -sizes[s])
        found: list[int] = []

        def extend(at: int, chosen: int, total: int, smallest: int) -> None:
            if total >= wanted_bytes:
                if total - smallest < wanted_bytes:
                    found.append(chosen)
                return
            for k in range(at, len(items)):
                s = items[k]
                extend(k + 1, chosen | 1 << s, total + sizes[s], min(smallest, sizes[s]))

        if wanted_bytes <= 0:
            return (0,)
        extend(0, 0, 0, _NEVER)
        return tuple(found)

    def _bytes_of(self, start: Start) -> int:
        sizes = self.instance.size_bytes
        stored = sizes[start.store] if start.store >= 0 else 0
        return stored + (sizes[start.prefetch] if start.prefetch >= 0 else 0)

    def _learn(self, nodes: list[Node], expanded: list[int], step_ns: int, end: int = -1) -> None:
        """No step from an expanded state ends before ``step_ns``, and one from those that led to ``end`` does then."""
        for index in expanded:
            state, times = nodes[index][:2]
            key = (state, from_now(times))
            self.rest_ns[key] = max(self.rest_ns.get(key, 0), step_ns - times[0])
        while end >= 0:
            state, times, _, end = nodes[end][:4]
            key = (state, from_now(times))
            self.rest_ns[key] = step_ns - times[0]
            self.met.add(key)

    def _found(self, nodes: list[Node], index: int, step_ns: int) -> Found:
        state, _, moved, parent, start, _, _ = nodes[index]
        total = moved
        starts: list[Start] = []
        while start is not None:
            starts.append(start)
            state, _, _, parent, start, _, _ = nodes[parent]
        return Found(step_ns, total, tuple(reversed(starts)), state[2], state[6])
