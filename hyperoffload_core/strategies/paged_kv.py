"""Strategy `paged-kv`: blocks of the KV cache are evicted least recently used and loaded back ahead of their use."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.lifetimes import Uses, uses_in_order
from hyperoffload_core.analysis.liveness import live_bytes
from hyperoffload_core.passes.directives import Leave, plan_of_leaves
from hyperoffload_core.passes.order import captured_order
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.selection import WRAP
from hyperoffload_core.strategies.base import Option, Request, Strategy

_MOST_STEPS = 8
_GIB = 1 << 30


def plan(request: Request) -> Plan:
    """Nothing but the KV cache moves: what of it does not fit beside the rest is evicted by least recent use.

    A block that was written is copied out behind its last write at once, so that evicting it costs no copy later; an op
    that needs the room of a block waits until its copy has ended. An evicted block is loaded in the order of need, as
    early as the limit has room for it without evicting what is still to be used before: from the start of the step on,
    if there is room (the system loads a request's missing blocks before the request runs), else as soon as there is.

    Assumed: a persistent storage of class kv_cache is a block (a storage moves as a whole, so ``block_size`` is
    what the graph has), the step is the request and repeats, and what is live beside the cache is what it is
    without offload. The eviction order is that of a step that has settled after some repetitions; a block evicted
    before its first use of a step is away from the end of the step before. Blocks that stay are not copied out, as
    the connector would for a later hit. ARC, ``store_threshold`` (blocks are reused by definition here) and prefix
    sharing are not modelled.
    """
    graph = request.graph
    order = captured_order(graph)
    uses = uses_in_order(graph, order)
    blocks = {s.id: s.bytes for s in graph.storages if s.persistent and s.tensor_class == "kv_cache"}
    blocks = {s: size for s, size in blocks.items() if uses[s].positions}
    rest = live_bytes(graph, order) - sum(blocks.values())
    touched: list[list[int]] = [[] for _ in order]
    for storage in blocks:
        for position in uses[storage].positions:
            touched[position].append(storage)
    fixed = {s for s in blocks if request.actions[s] == "keep"}
    host_bytes = round(float(request.options["kv_offloading_size"]) * _GIB)
    evictions = steady_evictions(blocks, touched, request.limit_bytes - rest, fixed, host_bytes or None)
    gaps = evicted_gaps(uses, evictions)
    leaves = loads_ahead(uses, blocks, gaps, rest, request.limit_bytes)
    found = plan_of_leaves(graph, order, request.durations_ns, request.hardware, leaves)
    return found if blocks else replace(found, notes=("this graph has no KV cache, so nothing moves",))


@dataclass(frozen=True, slots=True)
class Eviction:
    """The op at ``position`` needs the room of a block."""

    storage: int
    position: int


def steady_evictions(
    blocks: dict[int, int],
    touched: Sequence[Sequence[int]],
    room_bytes: NDArray[np.int64],
    fixed: Collection[int] = (),
    host_bytes: int | None = None,
) -> list[Eviction]:
    """Evictions of one step once repeating the step changes nothing more, by least recent use.

    ``touched[position]`` are the blocks an op uses. Room for those of the next op is made one op ahead, so that
    their load can begin; neither they nor those of the running op are evicted then. ``room_bytes[position]`` is
    what the cache may take while the op runs. ``host_bytes`` bounds all blocks that ever leave.
    """
    resident: OrderedDict[int, None] = OrderedDict.fromkeys(blocks)
    held, hosted, hosted_bytes = sum(blocks.values()), set[int](), 0
    evictions: list[Eviction] = []
    for _ in range(_MOST_STEPS):
        before, evictions = tuple(resident), []
        for position, used in enumerate(touched):
            needed = [*used, *touched[(position + 1) % len(touched)]]
            for storage in needed:
                held += 0 if storage in resident else blocks[storage]
                resident[storage] = None
                resident.move_to_end(storage)
            if held <= room_bytes[position]:
                continue
            for storage in list(resident):
                fits = storage in hosted or host_bytes is None or hosted_bytes + blocks[storage] <= host_bytes
                if storage in fixed or storage in needed or not fits:
                    continue
                hosted_bytes += 0 if storage in hosted else blocks[storage]
                hosted.add(storage)
                del resident[storage]
                held -= blocks[storage]
                evictions.append(Eviction(storage, position))
                if held <= room_bytes[position]:
                    break
        if tuple(resident) == before:
            break
    return evictions


def evicted_gaps(uses: Sequence[Uses], evictions: Sequence[Eviction]) -> dict[tuple[int, int], int]:
    """(storage, gap) of each eviction, with the position that needs the room: the op count for the step's end."""
    gaps: dict[tuple[int, int], int] = {}
    for eviction in evictions:
        positions = uses[eviction.storage].positions
        passed = sum(p < eviction.position for p in positions)
        if 0 < passed < len(positions):
            gaps[eviction.storage, passed - 1] = eviction.position
        elif passed:
            gaps[eviction.storage, WRAP] = eviction.position
        else:
            gaps.setdefault((eviction.storage, WRAP), positions[-1] + 1)
    return gaps


def loads_ahead(
    uses: Sequence[Uses],
    blocks: dict[int, int],
    gaps: dict[tuple[int, int], int],
    rest: NDArray[np.int64],
    limit_bytes: int,
) -> list[Leave]:
    """A leave for each gap; its load is issued as early as the room between eviction and use allows."""
    count = len(rest)
    live = rest.copy()
    loads: list[tuple[int, int, int, int]] = []  # needed at, not before, storage, gap
    for storage, size in blocks.items():
        live += size
        positions = uses[storage].positions
        for (owner, gap), until in gaps.items():
            if owner != storage:
                continue
            if gap == WRAP:
                live[until:] -= size
                live[: positions[0]] -= size
                loads.append((positions[0], -1, storage, gap))
            else:
                live[until : positions[gap + 1]] -= size
                loads.append((positions[gap + 1], until, storage, gap))
    leaves = []
    earliest = -1
    for needed, not_before, storage, gap in sorted(loads):
        issue = needed - 1
        while issue > max(earliest, not_before) and live[issue - 1 if issue else 0] + blocks[storage] <= limit_bytes:
            issue -= 1
        # Behind an op the copies out that the next op waits for may still run, so the op itself must leave room.
        live[max(issue, 0) : needed] += blocks[storage]
        earliest = issue
        until = gaps[storage, gap]
        leaves.append(Leave(storage, gap, wait_before=until if until < count else None, fetch_after=issue))
    return leaves


STRATEGY = Strategy(
    name="paged-kv",
    title="Paged KV cache (LRU)",
    help="KV cache blocks that do not fit are evicted by least recent use and loaded back ahead of their use.",
    source="PagedAttention, arXiv 2309.06180, and vLLM's KV offloading connector (vllm/v1/kv_offload).",
    plan=plan,
    leaves="blocks of the KV cache",
    options=(Option("kv_offloading_size", 0.0, "Host memory for blocks, GiB; 0: the whole pool.", minimum=0),),
)
