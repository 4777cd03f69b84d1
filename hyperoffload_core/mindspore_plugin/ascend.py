"""Target ``ascend``: a schedule's cache operators as the operators MindSpore itself has for Ascend.

    move                                   operator                              what it does
    Store of a tensor of the step          CopyToHost(x, sync=False)             a new tensor on the host
    Prefetch of a tensor of the step       CopyToDevice(host copy, sync=False)   a new tensor on the device
    Store of a parameter                   UpdateToRemote(p, sync=False)         writes the remote copy, in place
    Prefetch of a parameter                UpdateToDevice(p, sync=False)         brings the device copy, in place
    end of a parameter's stay (Detach)     Detach(p, sync=False)                 drops the device copy

A tensor of the step needs no Detach: MindSpore frees it behind its last reader, which is its CopyToHost where a Store
ends its stay; another Prefetch reads the same host copy. A parameter has one address, on the device and remote, which
its optimizer, checkpoints and `asnumpy` know: only operators that move it in place fit.

``sync=False`` lets the host go on: that a copy has ended is left to MindSpore's streams and events, and so is keeping
the source of a Store until it has. Each operator is held behind the chain before it by its monad, which is how
MindSpore orders what has side effects (all five carry ``side_effect_mem``), so that its data comes straight from its
producer and goes straight to its readers: in the sources of late 2025 a pass on Ascend sorts copies by such direct
edges alone. An op is held back on another input than a brought-back tensor wherever it has one.

None of this has run on Ascend. See docs/emit.md for what was checked and what was read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hyperoffload_core.mindspore_plugin.chain import Chain, Done, Move, Release, RunOp, Start, build_chain
from hyperoffload_core.mindspore_plugin.edits import Plan, Ref
from hyperoffload_core.mindspore_plugin.fitting import moved_storages, why_fixed
from hyperoffload_core.mindspore_plugin.insertion import Editor, last_readers, tensor_roots
from hyperoffload_core.mindspore_plugin.nodes import LiveGraph, Node
from hyperoffload_core.schedule import Schedule

_ASYNCHRONOUS = "b0"
_IN_PLACE = {"store": "UpdateToRemote", "prefetch": "UpdateToDevice", "detach": "Detach"}


@dataclass(frozen=True)
class AscendPlan:
    """The edits; names of storages that stay on the device although the schedule moves them, with the reason; and of
    moved parameters whose home is the pool."""

    plan: Plan
    stays: Mapping[str, str]
    in_pool: tuple[str, ...]


def plan_ascend(live: LiveGraph, schedule: Schedule) -> AscendPlan:
    """The edits that put a verified schedule of this graph into it."""
    roots = tensor_roots(live, schedule.graph)
    reasons = {s: why_fixed(live, schedule.graph, s, roots) for s in moved_storages(schedule)}
    movable = {s for s, reason in reasons.items() if reason is None}
    chain = build_chain(schedule, movable, {s: p for s, p in last_readers(schedule).items() if s in roots})
    return AscendPlan(
        plan=_AscendEditor(live, schedule, chain, roots).plan(),
        stays={schedule.graph.storages[s].name: reason for s, reason in reasons.items() if reason is not None},
        in_pool=tuple(live.parameters[s] for s in sorted(movable) if schedule.homes[s] == "pool"),
    )


class _AscendEditor(Editor):
    """``states[storage]`` is the node after which a parameter has its newest value in its newest place."""

    def __init__(self, live: LiveGraph, schedule: Schedule, chain: Chain, roots: Mapping[int, Ref]) -> None:
        super().__init__(live, schedule, chain, roots, lambda index: index, marks=False)
        self.converted = set()
        self.host_copies: dict[int, Ref] = {}
        self.states: dict[int, Ref] = {}
        self.loads: dict[int, Ref] = {}

    def plan(self) -> Plan:
        self._cut_side_effect_edges()
        for item in self.chain.items:
            match item:
                case RunOp(op):
                    self._run(op)
                case Start(move):
                    self._start(move)
                case Done(move) if move.storage in self.in_flight and move.kind == "prefetch":
                    self.current[move.storage] = self.in_flight.pop(move.storage)
                case Done() | Release():
                    pass
        return self._planned("ascend")

    def _start(self, move: Move) -> None:
        if self.schedule.graph.storages[move.storage].persistent:
            parameter = f"p:{self.live.parameters[move.storage]}"
            self.last = self._operator(_IN_PLACE[move.kind], parameter, f"like {parameter}")
            self._changed(move.storage, self.last)
            return
        root = f"like {self.roots[move.storage]}"
        if move.kind == "store":
            self.last = self.host_copies[move.storage] = self._operator("CopyToHost", self._value(move.storage), root)
        else:
            host_copy = self.host_copies[move.storage]
            self.last = self.in_flight[move.storage] = self._operator("CopyToDevice", host_copy, root)

    def _operator(self, primitive: str, data: Ref, result: str) -> Ref:
        return self._new(primitive, (data, _ASYNCHRONOUS, self._state(self.last)), result)

    def _state(self, after: Ref) -> Ref:
        return self._new("UpdateState", ("U", after), "U") if after else "U"

    def _changed(self, storage: int, by: Ref) -> None:
        self.states[storage] = by
        self.loads.pop(storage, None)

    def _run(self, op: int) -> None:
        super()._run(op)
        for storage in self.schedule.graph.ops[op].writes:
            if self.schedule.graph.storages[storage].persistent:
                self._changed(storage, self.last)

    def _has_run(self, _node: Node, ran: Ref) -> Ref:
        return ran

    def _hold_back(self, node: Node, inputs: list[Ref]) -> None:
        for position in node.states:
            inputs[position] = self._state(self.last)
        if self.last and not node.states:
            super()._hold_back(node, inputs)

    def _held_input(self, inputs: list[Ref]) -> int | None:
        brought_back = set(self.current.values())
        position = super()._held_input([ref if ref not in brought_back else "" for ref in inputs])
        return position if position is not None else super()._held_input(inputs)

    def _shown(self, n: int, inputs: tuple[Ref, ...]) -> Ref:
        """One node for each value shown: a reshape is a view on Ascend, so it need not be made where it is used."""
        if inputs == self.live.nodes[n].inputs:
            return f"n{n}"
        if (n, inputs) not in self.rebuilt:
            self.rebuilt[n, inputs] = self._clone(n, inputs), self.position
        return self.rebuilt[n, inputs][0]

    def _rebuild(self, ref: Ref, seen: dict[Ref, Ref]) -> Ref:
        """As for every target; and what reads a parameter reads it as it is now, after what changed or moved it."""
        node = self.live.nodes[int(ref[1:])] if ref.startswith("n") else None
        if node is None or node.expected.primitive != "Load" or node.gives.storage not in self.states:
            return super()._rebuild(ref, seen)
        storage = node.gives.storage
        if storage not in self.loads:
            self.loads[storage] = self._new("Load", (node.inputs[0], self._state(self.states[storage])), f"like {ref}")
        return self.loads[storage]
