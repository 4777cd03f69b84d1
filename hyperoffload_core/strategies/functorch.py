"""Strategy `functorch`: activation offload of PyTorch's ahead-of-time compiler, with reload by reverse scan."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.directives import Leave, plan_of_leaves
from hyperoffload_core.passes.order import captured_order
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.strategies.base import Option, Request, Strategy
from hyperoffload_core.strategies.saved import Saved, backward_begin, saved_activations

_GIB = 1 << 30
_MATMUL_LIKE = re.compile(r"MatMul|Conv[123]D|Conv[123]d|Dense|Linear|Addmm|Addmv|Bmm|Attention")
"""Primitives whose time hides a reload: matrix products, convolutions and fused attention, forward and gradient."""


def plan(request: Request) -> Plan:
    """Every saved activation leaves behind its last forward use and returns for its first backward use.

    The op behind the copy-out waits for its end; with ``activation_offload_sink_wait`` only the first backward op
    does. A copy-in starts when its consumer is the next to run; with ``activation_reload_prefetch`` where
    `reload_issues` says. Both need ``activation_offload_separate_stream``, without which copies run on the compute
    stream. All three are off by default in PyTorch, hence here. Neither the memory limit nor the link of the
    hardware is looked at.

    Assumed: every activation is tagged for offload (in PyTorch the user tags them); results of an op with several
    results count as tuple elements, which never move; views do not exist here (one storage) and every storage is
    contiguous. The forward graph ends at the first backward op.
    """
    graph, options = request.graph, request.options
    order = captured_order(graph)
    begin = backward_begin(graph, order)
    moved = [
        s
        for s in saved_activations(graph, uses_in_order(graph, order), begin)
        if request.actions[s.storage] != "keep" and not _is_tuple_element(graph, s.storage)
    ]
    separate = bool(options["activation_offload_separate_stream"])
    sink = separate and bool(options["activation_offload_sink_wait"])
    issues: Sequence[int | None] = [None] * len(moved)
    if separate and options["activation_reload_prefetch"]:
        bytes_per_ns = float(options["activation_offload_cpu_gpu_bw"]) * _GIB / 1e9
        copies = [graph.storages[s.storage].bytes / bytes_per_ns for s in moved]
        issues = reload_issues(moved, copies, compute_ns(graph, order, request.durations_ns), begin)
    leaves = []
    for number, (s, issue) in enumerate(zip(moved, issues, strict=True)):
        # A sunk wait frees nothing: the allocator gives the bytes back when the copy has ended. Copies of one stream
        # end in order, so waiting for the last one is waiting for all.
        wait = s.last_forward + 1 if not sink else begin if number == len(moved) - 1 else None
        leaves.append(Leave(s.storage, s.gap, s.last_forward, wait, issue))
    found = plan_of_leaves(graph, order, request.durations_ns, request.hardware, leaves)
    note = "nothing moves: no activation that may leave is saved for the backward pass"
    return found if leaves else replace(found, notes=(note,))


def compute_ns(graph: Graph, order: Sequence[int], durations_ns: Sequence[int]) -> list[int]:
    """By position: the duration of an op that counts as compute (matmul-like), 0 for every other."""
    return [durations_ns[op] if _MATMUL_LIKE.search(graph.ops[op].primitive) else 0 for op in order]


@dataclass(slots=True)
class _Reload:
    number: int
    remaining_ns: float


def reload_issues(saved: Sequence[Saved], copy_ns: Sequence[float], compute: Sequence[int], begin: int) -> list[int]:
    """The position behind which each reload is issued, by the reverse scan.

    From the last op back to ``begin`` a reload enters a queue ahead of its consumer. Each op takes its compute time off
    the reload at the head only; once nothing remains, that one is issued ahead of this op, and what was taken too much
    is lost. What is still queued at ``begin`` is issued there.
    """
    arriving: dict[int, list[int]] = {}
    for number, s in enumerate(saved):
        arriving.setdefault(s.first_backward, []).append(number)
    issues = [begin - 1] * len(saved)
    queue: deque[_Reload] = deque()
    for position in range(len(compute) - 1, begin - 1, -1):
        if queue:
            queue[0].remaining_ns -= compute[position]
            if queue[0].remaining_ns <= 0:
                issues[queue.popleft().number] = position - 1
        for number in reversed(arriving.get(position, [])):
            queue.append(_Reload(number, copy_ns[number]))
    return issues


def _is_tuple_element(graph: Graph, storage: int) -> bool:
    return len(graph.ops[graph.accesses[storage][0].op].writes) > 1


STRATEGY = Strategy(
    name="functorch",
    title="PyTorch activation offload (functorch)",
    help="Saved activations leave behind their last forward use; reloads are placed by a reverse scan over compute.",
    source="PyTorch, torch/_functorch/_activation_offloading (pull requests 167880 and 168316).",
    plan=plan,
    options=(
        Option("activation_offload_separate_stream", False, "Copies run beside compute instead of on its stream."),
        Option("activation_offload_sink_wait", False, "Waits for copies out move to the end of the forward pass."),
        Option("activation_reload_prefetch", False, "Reloads move ahead by the reverse scan."),
        Option("activation_offload_cpu_gpu_bw", 50.0, "Link rate the reverse scan assumes, GiB/s.", minimum=0.001),
    ),
)
