"""What MindSpore's two static passes share: the values they may offload, Remote parameters, and distances in ops.

Source: mindspore-ai/mindspore, `mindspore/ccsrc/plugin/ascend/kernel_executor/hierarchical_memory/` (Apache-2.0), and
the knobs of MindSpore 2.10 (`mindspore/graph/_parse/compile_config.py`). Nothing here has run on Ascend.

Assumed, where the original is unknown or cannot be expressed with storages:

- `jit(auto_offload="all")`: activations are every value a kernel produces; weights, optimizer states and KV caches
  that a rule says `offload` are parameters with `device="Remote"`. Other `offload` rules change nothing; what a rule
  says `keep` is no candidate.
- An in-place (reference) operator is an op that reads and writes one storage; every value it touches is skipped.
- Each user of a Remote parameter gets its own copy there, several of which may be on the device at once. A storage is
  there once: where the next user's copy would be issued before the last user is done, it stays for both.
- Distances count the ops of the graph, as the interface of 2026 does.
- Left out: distances and switches of single nodes, the filter by percentage and the choice of pipeline stages, of which
  only the names are public.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hyperoffload_core.analysis.lifetimes import Uses
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.directives import Leave
from hyperoffload_core.passes.selection import WRAP
from hyperoffload_core.policy import Action
from hyperoffload_core.strategies.base import Option

REMOTE_CLASSES = ("weight", "optimizer_state", "kv_cache")
_NO_PRODUCERS = ("MoveTo", "TensorMove", "ConditionSwitch")

OPTIONS = (
    Option("SELECT_DISTANCE", 100, "A value is a candidate if two uses lie more ops apart than this.", minimum=0),
    Option("SELECT_NUM", 100, "The most values that are offloaded.", minimum=0),
    Option("PREFETCH_DISTANCE", 50, "How many ops ahead of its user a copy-in is issued.", minimum=0),
    Option("RELEASE_DISTANCE", 0, "How many ops behind the last user compute waits for the copy-out.", minimum=0),
)


@dataclass(frozen=True, slots=True)
class Distances:
    """Ops between a copy-in and its user, and between the last user and the wait for its copy-out, by size in bytes."""

    prefetch: Callable[[int], int]
    release: Callable[[int], int]


def offloadable_values(graph: Graph, uses: Sequence[Uses], actions: Sequence[Action]) -> list[Uses]:
    """Values the passes may offload, in the order in which they are first consumed. ``uses`` are in captured order."""
    in_place: set[int] = set()
    for op in graph.ops:
        if not set(op.writes).isdisjoint(op.reads):
            in_place.update(op.reads, op.writes)
    found = [
        use
        for use in uses
        if len(use.positions) > 1
        and not use.exists_at_start
        and sum(use.writes) == 1
        and use.storage not in in_place
        and actions[use.storage] != "keep"
        and graph.ops[use.positions[0]].primitive not in _NO_PRODUCERS
    ]
    return sorted(found, key=lambda use: use.positions[1])


def value_leaves(graph: Graph, use: Uses, gaps: Collection[int], distances: Distances) -> list[Leave]:
    """One copy-out behind the producer, one copy-in per gap; an output comes back once more at the end of the step."""
    size, count = graph.storages[use.storage].bytes, len(graph.ops)
    wanted = sorted({*gaps, len(use.positions) - 1} if use.lives_to_end and gaps else gaps)
    return [
        Leave(
            use.storage,
            gap,
            store_after=use.positions[0],
            wait_before=use.positions[gap] + 1 + distances.release(size),
            fetch_after=[*use.positions, count][gap + 1] - 1 - distances.prefetch(size),
        )
        for gap in wanted
    ]


def remote_leaves(graph: Graph, uses: Sequence[Uses], actions: Sequence[Action], distances: Distances) -> list[Leave]:
    """Remote parameters: home in the pool, a copy-in for each user, a copy-out behind each in-place update."""
    leaves = []
    for use in uses:
        storage = graph.storages[use.storage]
        is_remote = actions[use.storage] == "offload" and storage.tensor_class in REMOTE_CLASSES
        if not is_remote or not storage.persistent:
            continue
        if not use.positions:
            count = len(graph.ops)  # away all the time: behind no op, and back for none
            leaves.append(Leave(use.storage, WRAP, wait_before=count, fetch_after=count - 1))
            continue
        ahead, behind = distances.prefetch(storage.bytes), distances.release(storage.bytes)
        first, last = use.positions[0], use.positions[-1]
        leaves.append(Leave(use.storage, WRAP, wait_before=last + 1 + behind, fetch_after=first - 1 - ahead))
        leaves += [
            Leave(use.storage, gap, wait_before=left + 1 + behind, fetch_after=right - 1 - ahead)
            for gap, (left, right) in enumerate(pairwise(use.positions))
            if right - 1 - ahead >= left
        ]
    return leaves
