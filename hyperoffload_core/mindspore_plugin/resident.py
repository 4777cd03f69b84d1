"""Which dead tensors must give their pages back, so that the process is as small as the schedule says.

MindSpore's allocator keeps the memory of a dead tensor for the next one, and the process keeps its pages. A parameter
that comes back while much of that memory is idle finds its own pages in another place: device memory is then held
twice. So where parameters arrive and pages would exceed the schedule's peak, tensors that died before release theirs.
Pages that are given back cost a page fault each when they are used again, so no more are than needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from hyperoffload_core.mindspore_plugin.chain import Chain, Done, Item, Release, RunOp, Start
from hyperoffload_core.schedule import Schedule

_LEAST_BYTES = 256 << 10
_HUGE_PAGE_BYTES = 2 << 20


@dataclass(slots=True)
class _Dead:
    """Idle pages a dead tensor left; ``place`` is the item after which it was dead."""

    place: int
    storage: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _Change:
    """What an item changes: bytes of regions, tensors allocated, tensors dead after it."""

    place: int
    regions_bytes: int
    allocated_bytes: int
    dead: tuple[int, ...]


def with_releases(
    chain: Chain, schedule: Schedule, keeps_tensor: Mapping[int, int], releasable: Collection[int]
) -> Chain:
    """The chain with a `Release` behind each death whose pages must go.

    ``keeps_tensor`` is as for `build_chain`, for all storages of the step; only those in ``releasable`` can release.
    """
    changes = list(_changes(chain, schedule, keeps_tensor))
    graph = schedule.graph
    fixed = sum(s.bytes for s in graph.storages if s.persistent and schedule.homes[s.id] == "device")
    fixed += sum(s.bytes for s in graph.storages if s.tensor_class == "input")
    released: set[tuple[int, int]] = set()
    resident = 0
    # A step begins with the pages the one before left, so the second pass sees what is so in every step.
    for _ in range(3):
        before = len(released)
        resident = _sweep(changes, schedule, fixed, resident, released, releasable)
        if len(released) == before and before:
            break
    behind: dict[int, list[Item]] = defaultdict(list)
    for place, storage in sorted(released):
        behind[place].append(Release(storage))
    items = [i for place, item in enumerate(chain.items) for i in (item, *behind.get(place, ()))]
    return replace(chain, items=tuple(items))


def _sweep(
    changes: list[_Change],
    schedule: Schedule,
    fixed: int,
    resident: int,
    released: set[tuple[int, int]],
    releasable: Collection[int],
) -> int:
    """Follow one step, adding to ``released``; returns the allocator's pages at its end."""
    storages, limit = schedule.graph.storages, schedule.metrics.peak_live_bytes
    allocated, regions = 0, fixed
    idle: list[_Dead] = []
    for change in changes:
        regions += change.regions_bytes
        allocated += change.allocated_bytes
        resident = max(resident, allocated)
        taken = change.allocated_bytes
        while taken > 0 and idle:
            taken -= idle[-1].bytes
            if taken < 0:
                idle[-1].bytes = -taken
            else:
                idle.pop()
        if resident + regions > limit:
            # What died last is the least likely to be in use again; huge pages are cheaper to have again.
            candidates = [d for d in reversed(idle) if d.storage in releasable and d.bytes >= _LEAST_BYTES]
            for dead in sorted(candidates, key=lambda d: d.bytes < _HUGE_PAGE_BYTES):
                released.add((dead.place, dead.storage))
                resident -= _given_back(dead.bytes)
                idle.remove(dead)
                if resident + regions <= limit:
                    break
        for storage in change.dead:
            allocated -= storages[storage].bytes
            if (change.place, storage) in released:
                resident = max(resident - _given_back(storages[storage].bytes), allocated)
            else:
                idle.append(_Dead(change.place, storage, storages[storage].bytes))
    return resident


def _given_back(dead_bytes: int) -> int:
    """What the process gets smaller by: of several huge pages, those that lie whole in the tensor."""
    return dead_bytes if dead_bytes < 2 * _HUGE_PAGE_BYTES else dead_bytes - _HUGE_PAGE_BYTES


def _changes(chain: Chain, schedule: Schedule, keeps_tensor: Mapping[int, int]) -> Iterator[_Change]:
    graph = schedule.graph
    size = [s.bytes for s in graph.storages]
    last_prefetch = {
        item.move.storage: place
        for place, item in enumerate(chain.items)
        if isinstance(item, Start) and item.move.kind == "prefetch"
    }
    dies_after: dict[int, list[int]] = defaultdict(list)
    for storage, position in keeps_tensor.items():
        if position >= 0 and not graph.lives_to_end(storage):
            dies_after[position].append(storage)
    seen: set[int] = set()
    position = -1
    for place, item in enumerate(chain.items):
        regions = allocated = 0
        dead: list[int] = []
        if isinstance(item, RunOp):
            position += 1
            op = graph.ops[item.op]
            new = {s for s in op.writes if not graph.storages[s].persistent and s not in seen}
            seen |= new
            allocated = sum(size[s] for s in new)
            dead = dies_after.get(position, [])
        elif isinstance(item, Start):
            storage = item.move.storage
            if graph.storages[storage].persistent:
                regions = {"prefetch": size[storage], "detach": -size[storage], "store": 0}[item.move.kind]
            elif item.move.kind == "prefetch":
                allocated = size[storage]
        elif isinstance(item, Done) and item.move.kind == "store" and last_prefetch.get(item.move.storage, -1) > place:
            # Of a parameter, the Detach that follows says when its memory goes.
            dead = [item.move.storage] if item.move.storage in keeps_tensor else []
        yield _Change(place, regions, allocated, tuple(dead))
