"""From a chain to edits of MindSpore's graph: cache operators put in, and edges that force the chain's order.

What the graph says by itself is not said twice: an op that takes the result of the op before it gets no edge. Edges
between side effects (`UpdateState`) are cut, since the chain orders everything and may order updates otherwise.

An op that a schedule runs a second time is a clone of its node. The clone too waits for what stands before it, on which
its original does not wait, so no two of them take the same and MindSpore has nothing to merge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hyperoffload_core.capture import views
from hyperoffload_core.capture.raw import tensors_in
from hyperoffload_core.ir import Graph
from hyperoffload_core.mindspore_plugin.chain import Chain, Done, Move, Release, RunOp, Start
from hyperoffload_core.mindspore_plugin.edits import TOKEN, Edit, NewNode, Plan, Ref, SetInput, Target
from hyperoffload_core.mindspore_plugin.nodes import LiveGraph, Node, is_full_view
from hyperoffload_core.program import TensorView
from hyperoffload_core.schedule import Schedule

SCOPE = "HyperOffload"
_STATE = "UpdateState"
# A reshaped copy is kept for the next so many ops, and kept for good if it is smaller than this.
_REACH = 16
_LARGE_BYTES = 64 << 10


def tensor_roots(live: LiveGraph, graph: Graph) -> dict[int, Ref]:
    """For each storage of the step the node that gives the whole of it: what a Store can take. ``graph`` is that of a
    schedule: for a storage of a recomputed op it is the node that a clone is made of.

    Left out: what is handed in or persistent, what several ops write, what no node gives as a whole, and views, which
    MindSpore makes contiguous anew for each kernel that takes them.
    """
    writers: dict[int, int] = {}
    for op in live.graph.ops:
        for storage in op.writes:
            writers[storage] = writers.get(storage, 0) + 1
    roots: dict[int, Ref] = {}
    ops = set(live.op_nodes)
    for n, node in enumerate(live.nodes):
        whole = is_full_view(node.gives, live.graph)
        if not whole or not (n in ops or node.expected.primitive == "TupleGetItem"):
            continue
        if views.is_view(node.expected.primitive):
            continue
        storage = live.graph.storages[node.gives.storage]
        if not storage.persistent and storage.tensor_class != "input" and writers.get(storage.id) == 1:
            roots.setdefault(storage.id, f"n{n}")
    return roots | {s.id: roots[s.recompute_of] for s in graph.storages if s.recompute_of in roots}


def last_readers(schedule: Schedule) -> dict[int, int]:
    """For each storage of the step the last position at which its memory may be read: by an op that accesses it, or
    one that accesses what MindSpore may only show differently (its strided views)."""
    position = {op: n for n, op in enumerate(schedule.order)}
    last = {
        s: max((position[a.op] for a in accesses), default=-1) for s, accesses in enumerate(schedule.graph.accesses)
    }
    for op in reversed(schedule.graph.ops):
        if views.is_view(op.primitive):
            for base in op.reads:
                last[base] = max(last[base], *(last[shown] for shown in op.writes))
    return {s.id: last[s.id] for s in schedule.graph.storages if not s.persistent and s.tensor_class != "input"}


class Editor:
    """Makes the edits for target ``cpu`` (`plan`).

    ``roots`` are `tensor_roots`. ``kernel_id(index)`` is what a node hands to its kernel to mean the move of that
    index. ``marks`` adds a time stamp after every op (its index is the op). ``current[storage]`` is where a storage's
    value is, once it is no longer what its op gave; ``clones[storage]`` the clone that filled a recomputed storage;
    ``copies`` what the op at hand takes in place of original storages.
    """

    def __init__(
        self,
        live: LiveGraph,
        schedule: Schedule,
        chain: Chain,
        roots: Mapping[int, Ref],
        kernel_id: Callable[[int], int],
        marks: bool,
    ) -> None:
        self.live, self.schedule, self.chain, self.roots = live, schedule, chain, roots
        self.kernel_id, self.marks = kernel_id, marks
        self.op_nodes = frozenset(live.op_nodes)
        storages = schedule.graph.storages
        self.converted = {m.storage for m in chain.moves if storages[m.storage].dtype != "float32"}
        self.edits: list[Edit] = []
        self.count = 0
        self.current: dict[int, Ref] = {}
        self.clones: dict[int, Ref] = {}
        self.copies: dict[int, int] = {}
        self.run_again = frozenset(op.recompute_of for op in schedule.graph.ops)
        self.in_flight: dict[int, Ref] = {}
        self.moved_parameters = {m.storage for m in chain.moves if schedule.graph.storages[m.storage].persistent}
        # Position in the chain, and at which one each node was shown last.
        self.position = 0
        self.rebuilt: dict[tuple[int, tuple[Ref, ...]], tuple[Ref, int]] = {}
        self.done_nodes: set[int] = set()
        # `token` says that everything up to some point has happened; `last` is the end of the chain.
        self.token: Ref = ""
        self.last: Ref = ""

    def plan(self) -> Plan:
        self._cut_side_effect_edges()
        self.token = self.last = self._new("HyperBegin", (self._number(0),), TOKEN)
        for item in self.chain.items:
            match item:
                case RunOp(op):
                    self._run(op)
                case Start(move):
                    self._start(move)
                case Done(move):
                    self._done(move)
                case Release(storage):
                    self._advance("HyperRelease", self._number(storage), self._value(storage))
        self._advance("HyperEnd", self._number(0))
        return self._planned("cpu")

    def _planned(self, target: Target) -> Plan:
        """The plan, with the graph's result behind the whole chain."""
        self.copies = {}
        result = self._rebuild(self.live.result, {})
        if self.last:
            end = self._new("Depend", (result, self.last), f"like {result}")
            self.edits.append(SetInput(len(self.live.nodes), 0, end))
        return Plan(self.live.graph.name, target, tuple(n.expected for n in self.live.nodes), tuple(self.edits))

    def _new(self, primitive: str, inputs: tuple[Ref, ...], result: str) -> Ref:
        self.edits.append(NewNode(self.count, primitive, inputs, result, SCOPE))
        self.count += 1
        return f"x{self.count - 1}"

    def _number(self, index: int) -> Ref:
        return f"i{self.kernel_id(index)}"

    def _cut_side_effect_edges(self) -> None:
        for n, node in enumerate(self.live.nodes):
            if node.expected.primitive in (_STATE, "MakeTuple"):
                continue
            for position, ref in enumerate(node.inputs):
                if self._is_state(ref) or (node.expected.primitive == "Depend" and position == 1):
                    self.edits.append(SetInput(n, position, "U"))

    def _is_state(self, ref: Ref) -> bool:
        return ref.startswith("n") and self.live.nodes[int(ref[1:])].expected.primitive == _STATE

    def _chained_token(self) -> Ref:
        """A token that stands for the whole chain so far."""
        if self.last != self.token:
            self.token = self._new("Depend", (self.token, self.last), TOKEN)
        return self.token

    def _advance(self, primitive: str, number: Ref, *tensors: Ref) -> None:
        self.token = self.last = self._new(primitive, (number, *tensors, self._chained_token()), TOKEN)

    # Ops.

    def _run(self, op: int) -> None:
        graph = self.schedule.graph
        again = graph.ops[op].recompute_of is not None
        n = self.live.op_nodes[graph.origins[op]]
        if n < 0 or (n in self.done_nodes and not again):
            return
        self.position += 1
        node = self.live.nodes[n]
        self.copies = {of: s for s in graph.ops[op].reads if (of := graph.storages[s].recompute_of) is not None}
        inputs = [ref if not ref or self._is_state(ref) else self._rebuild(ref, {}) for ref in node.inputs]
        self._hold_back(node, inputs)
        if again:
            ran = self._new(f"clone n{n}", tuple("U" if self._is_state(i) else i for i in inputs), f"like n{n}")
            self.clones.update(dict.fromkeys(graph.ops[op].writes, ran))
        else:
            ran = f"n{n}"
            self.done_nodes.add(n)
            self.edits += [SetInput(n, p, i) for p, i in enumerate(inputs) if i != node.inputs[p]]
        if any(ref for ref in inputs) or not self.last:
            self.last = self._has_run(node, ran)
        elif again or op in self.run_again:
            # Of constants only, and what reads the result may read another run's.
            self.last = self._new(_STATE, ("U", self.last, ran), "U")
        for storage in graph.ops[op].writes:
            if storage in self.converted and storage in self.roots:
                self._keep_whole(storage, ran)
        if self.marks:
            self._advance("HyperMark", self._number(op))

    def _keep_whole(self, storage: int, ran: Ref) -> None:
        """MindSpore on CPU computes many results in float32 only and converts them anew for each kernel that takes
        them; what is stored must be one memory, so it is the copy of a first reader."""
        self.current[storage] = self._new("TensorMove", (self._value(storage),), f"like {self.roots[storage]}")
        if self.last == ran:
            self.last = self.current[storage]

    def _has_run(self, node: Node, ran: Ref) -> Ref:
        """What follows waits for a state behind an op that updates in place: MindSpore's CPU backend makes some of them
        an Assign of a result that is new, and only the state is behind the Assign."""
        return self._new(_STATE, ("U", ran), "U") if node.states else ran

    def _hold_back(self, _node: Node, inputs: list[Ref]) -> None:
        """The node waits for what stands before it in the chain, by one of its inputs if not by what it takes."""
        if any(self.last == ref or self.last in self._sources(ref) for ref in inputs):
            return
        held = self._held_input(inputs)
        if held is not None:
            inputs[held] = self._new("Depend", (inputs[held], self.last), f"like {inputs[held]}")

    def _held_input(self, inputs: list[Ref]) -> int | None:
        """The input to hold an op back by: a tensor rather than a tuple, a node rather than a parameter."""

        def rank(position: int) -> tuple[bool, bool]:
            ref = inputs[position]
            node = self.live.nodes[int(ref[1:])] if ref.startswith("n") else None
            return (node is not None and not isinstance(node.gives, TensorView), ref.startswith("p:"))

        usable = [p for p, ref in enumerate(inputs) if ref and ref != "U" and not self._is_state(ref)]
        return min(usable, key=rank, default=None)

    def _sources(self, ref: Ref) -> set[Ref]:
        """The ops whose results a value shows, by way of nodes that do no work."""
        if not ref.startswith("n") or self._is_state(ref):
            return set()
        n = int(ref[1:])
        if n in self.done_nodes:
            return {ref}
        node = self.live.nodes[n]
        through = node.inputs[:1] if node.expected.primitive in ("Depend", "Load") else node.inputs
        return set().union(*(self._sources(i) for i in through))

    def _rebuild(self, ref: Ref, seen: dict[Ref, Ref]) -> Ref:
        """The value as it is now: where a storage was brought back, or recomputed for the op at hand, the nodes that
        show it are made anew on it."""
        if not ref.startswith("n"):
            return ref
        if ref in seen:
            return seen[ref]
        n = int(ref[1:])
        node = self.live.nodes[n]
        is_op = n in self.op_nodes
        gives = [self.copies.get(view.storage, view.storage) for view in tensors_in(node.gives)]
        whole = is_full_view(node.gives, self.live.graph)
        if whole and gives[0] in self.current and self._like_root(n):
            result = self.current[gives[0]]
        elif is_op:
            result = next((self.clones[s] for s in gives if s in self.clones), ref)
        elif node.expected.primitive == "Load":
            result = ref
        elif node.expected.primitive == "Depend":
            result = self._rebuild(node.inputs[0], seen)
        else:
            inputs = tuple(i if not i or self._is_state(i) else self._rebuild(i, seen) for i in node.inputs)
            result = self._shown(n, inputs)
        seen[ref] = result
        return result

    def _shown(self, n: int, inputs: tuple[Ref, ...]) -> Ref:
        """A node that does no work in the captured graph (a reshape, a tuple), with these inputs.

        MindSpore on CPU copies where it reshapes, as soon as it can. So a reshape of what moves is made where it is
        used, and one that is used again much later is made again rather than kept.
        """
        node = self.live.nodes[n]
        copies = node.expected.primitive not in ("MakeTuple", "TupleGetItem")
        moves = copies and self._shows_moved_parameter(node)
        made, position = self.rebuilt.get((n, inputs), ("", 0))
        if not made and inputs == node.inputs:
            made, position = f"n{n}", self.position
        if made and not moves and not (copies and self.position - position > _REACH and self._is_large(node)):
            self.rebuilt[n, inputs] = made, position
            return made
        taken = list(inputs)
        held = self._held_input(taken) if copies else None
        if held is not None:
            taken[held] = self._new("Depend", (taken[held], self.last), f"like {taken[held]}")
        made = self._clone(n, taken)
        self.rebuilt[n, inputs] = made, self.position
        return made

    def _clone(self, n: int, inputs: Sequence[Ref]) -> Ref:
        """A node like that one, with these inputs."""
        kept = ("" if new == old else new for new, old in zip(inputs, self.live.nodes[n].inputs, strict=True))
        return self._new(f"clone n{n}", tuple(kept), f"like n{n}")

    def _shows_moved_parameter(self, node: Node) -> bool:
        return any(v.storage in self.moved_parameters for v in tensors_in(node.gives))

    def _is_large(self, node: Node) -> bool:
        return any(self.live.graph.storages[v.storage].bytes >= _LARGE_BYTES for v in tensors_in(node.gives))

    def _like_root(self, n: int) -> bool:
        """Whether the node gives its storage in the shape in which it is brought back."""
        gives = self.live.nodes[n].gives
        root = self.live.nodes[int(self.roots[gives.storage][1:])].gives
        return bool(gives.shape == root.shape and gives.dtype == root.dtype)

    def _value(self, storage: int) -> Ref:
        """Where the whole of a storage is now."""
        of = self.schedule.graph.storages[storage].recompute_of
        if storage not in self.current and of is not None:
            self.copies = {of: storage}
            self.current[storage] = self._rebuild(self.roots[storage], {})
        return self.current.get(storage, self.roots[storage])

    # Cache operators.

    def _start(self, move: Move) -> None:
        number = self._number(move.index)
        if move.kind == "detach":
            self._advance("HyperDetach", number)
        elif self.schedule.graph.storages[move.storage].persistent:
            self._advance("HyperStore" if move.kind == "store" else "HyperPrefetch", number)
        elif move.kind == "store":
            self._advance("HyperStore", number, self._value(move.storage))
        else:
            token = self._chained_token()
            result = f"like {self.roots[move.storage]}"
            self.last = self.in_flight[move.storage] = self._new("HyperPrefetch", (number, token), result)

    def _done(self, move: Move) -> None:
        number = self._number(move.index)
        name = "HyperStoreDone" if move.kind == "store" else "HyperPrefetchDone"
        if self.schedule.graph.storages[move.storage].persistent:
            self._advance(name, number)
        elif move.kind == "store":
            self._advance(name, number, self._value(move.storage))
        else:
            arriving = self.in_flight.pop(move.storage)
            self._advance(name, number, arriving)
            self.current[move.storage] = self._new("Depend", (arriving, self.token), f"like {arriving}")
