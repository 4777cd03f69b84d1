"""A cell whose next compile in MindSpore's graph mode applies a schedule, and that runs under it until detached.

Activations travel as tensors of the graph. A parameter that the schedule moves gets memory of ours (a region): while
it is remote its memory shows the pool's copy, so reading it, checkpoints and assignments from Python work as ever.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor
from mindspore.graph.api import _cell_graph_executor
from numpy.typing import NDArray

from hyperoffload_core.capture.roles import all_parameters
from hyperoffload_core.errors import UserError
from hyperoffload_core.ir import Graph
from hyperoffload_core.mindspore_plugin import passes
from hyperoffload_core.mindspore_plugin.chain import Chain, build_chain
from hyperoffload_core.mindspore_plugin.edits import plan_text
from hyperoffload_core.mindspore_plugin.insertion import last_readers, plan_edits, tensor_roots
from hyperoffload_core.mindspore_plugin.kernels import EVENT, Kernels, Region, Session, load_kernels, open_session
from hyperoffload_core.mindspore_plugin.nodes import LiveGraph, live_graph
from hyperoffload_core.mindspore_plugin.resident import with_releases
from hyperoffload_core.schedule import Schedule

PAGE_BYTES = 4096
TENSOR_ALIGNMENT = 64


class AttachError(UserError):
    """A cell and a schedule that do not go together, or a step that failed; one sentence says why."""


@dataclass(frozen=True)
class Owned:
    """A parameter and the region its values are in."""

    parameter: Parameter
    region: Region
    values: NDArray[Any]
    home: str

    def adopt(self) -> None:
        """Take over whatever memory the parameter was given since (``set_data``, a loaded checkpoint)."""
        if self.parameter.data_ptr() != self.values.ctypes.data:
            self.values[...] = self.parameter.asnumpy()
            self.parameter.set_data(Tensor.from_numpy(self.values))


@dataclass(frozen=True)
class Inserted:
    """What the pass did: nodes it added, inputs it changed, and what stays on the device although the schedule moves
    it (storage names with the reason)."""

    new_nodes: int
    changed_inputs: int
    stays: Mapping[str, str]


@dataclass
class Attached:
    """A cell with a schedule; call it, or the cell, as ever. Made by `attach`, ended by `detach`."""

    cell: Any
    schedule: Schedule
    kernels: Kernels
    folder: Path | None
    paced: bool
    marks: bool
    random_delay_ns: int = 0
    session: Session | None = None
    owned: list[Owned] = field(default_factory=list)
    inserted: Inserted | None = None
    chain: Chain | None = None
    _events: list[NDArray[np.void]] = field(default_factory=list)

    def __call__(self, *inputs: Any) -> Any:
        return self.cell(*inputs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """In the place of ``cell.compile``: a graph that is not compiled yet is compiled with the schedule."""
        if self.session is None:
            self._insert(args, kwargs)
        else:
            type(self.cell).compile(self.cell, *args, **kwargs)

    def compile_and_run(self, *args: Any, **kwargs: Any) -> Any:
        """In the place of ``cell.compile_and_run``: parameters are looked after, and a failed step is said."""
        self.cell.compile(*args, **kwargs)
        for owned in self.owned:
            owned.adopt()
        assert self.session is not None
        try:
            return type(self.cell).compile_and_run(self.cell, *args, **kwargs)
        except Exception as error:
            said = self.session.abandon()
            if said:
                raise AttachError(f"the step stopped: {said}") from error
            raise

    def take_events(self) -> NDArray[np.void]:
        """What the kernels recorded since the last call (`kernels.EVENT`)."""
        return np.empty(0, EVENT) if self.session is None else self.session.take_events()

    def _insert(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if kwargs:
            raise AttachError("an attached cell takes its inputs by position; one was given by name")
        live = live_graph(self.cell, args, self.schedule.graph.name)
        _forget_compiled(self.cell)
        refuse_other_graph(live.graph, self.schedule.graph.original)
        roots = tensor_roots(live)
        parameters = all_parameters(self.cell)
        movable, stays = _movable(live, self.schedule, roots, parameters)
        readers = last_readers(self.schedule)
        tensors = {s: p for s, p in readers.items() if s in roots}
        chain = with_releases(build_chain(self.schedule, movable, tensors), self.schedule, readers, roots)
        slots, pool_bytes = _pool_slots(self.schedule.graph, sorted({m.storage for m in chain.moves}))
        hardware = self.schedule.hardware
        self.session = session = open_session(
            self.kernels,
            max(pool_bytes, PAGE_BYTES),
            link_out=hardware.link_out,
            link_in=hardware.link_in,
            half_duplex=hardware.duplex == "half",
            folder=self.folder,
            paced=self.paced,
            random_delay_ns=self.random_delay_ns,
        )
        try:
            regions = self._take_parameters(live, {m.storage for m in chain.moves}, slots, parameters)
            for move in chain.moves:
                if move.storage in regions:
                    session.region_command(move.index, move.kind, regions[move.storage])
                else:
                    size = self.schedule.graph.storages[move.storage].bytes
                    session.tensor_command(move.index, move.kind, size, slots[move.storage])
            for move in chain.moves:
                session.command_after(move.index, move.after)
            _give_back_free_memory()
            plan = plan_edits(live, self.schedule, chain, session.kernel_id, marks=self.marks)
            passes.set_plan(plan_text(plan))
            try:
                type(self.cell).compile(self.cell, *args)
            finally:
                said = passes.report()
                passes.set_plan("")
            if not isinstance(said, passes.Applied):
                reason = said.reason if said is not None else "MindSpore ran no pass on the graph"
                raise AttachError(f"MindSpore's graph did not take the schedule: {reason}")
        except BaseException:
            self.release()
            raise
        self.inserted = Inserted(said.new_nodes, said.changed_inputs, stays)
        self.chain = chain

    def _take_parameters(
        self, live: LiveGraph, moved: set[int], slots: Mapping[int, int], parameters: Mapping[str, Parameter]
    ) -> dict[int, Region]:
        assert self.session is not None
        regions: dict[int, Region] = {}
        for storage in sorted(moved & live.parameters.keys()):
            parameter = parameters[live.parameters[storage]]
            value = parameter.asnumpy()
            region = self.session.region(value.nbytes, slots[storage])
            values = region.memory.view(value.dtype).reshape(value.shape)
            values[...] = value
            parameter.set_data(Tensor.from_numpy(values))
            region.to_pool()
            if self.schedule.homes[storage] == "device":
                region.to_device()
            regions[storage] = region
            self.owned.append(Owned(parameter, region, values, self.schedule.homes[storage]))
        return regions

    def release(self) -> None:
        """The parameters' values come back into memory MindSpore owns, and the pool goes."""
        for owned in self.owned:
            if owned.parameter.data_ptr() == owned.values.ctypes.data:
                owned.parameter.set_data(Tensor(owned.values.copy()))
        self.owned.clear()
        if self.session is not None:
            self.session.close()
            self.session = None


_ATTACHED: dict[int, Attached] = {}


def attach(
    cell: Any,
    schedule: Schedule,
    *,
    pool_folder: Path | None = None,
    paced: bool = True,
    marks: bool = False,
    random_delay_ns: int = 0,
) -> Attached:
    """Run ``cell`` in MindSpore's graph mode under ``schedule`` from its next call on.

    The pool is shared memory, or a file without a name in ``pool_folder``. ``paced`` holds copies back to the links of
    the schedule's hardware; ``marks`` records when every op ran. Raises `UserError` kinds where MindSpore's mode,
    version or the compiler does not fit; the cell's next call raises `AttachError` where its graph is another one than
    the schedule's.
    """
    if ms.get_context("mode") != ms.GRAPH_MODE:
        raise AttachError("the schedule needs graph mode; call mindspore.set_context(mode=mindspore.GRAPH_MODE) before")
    if id(cell) in _ATTACHED:
        raise AttachError(f"{type(cell).__name__} has a schedule already; detach it first")
    kernels = load_kernels(passes.prepare())
    passes.register("cpu")
    attached = Attached(cell, schedule, kernels, pool_folder, paced, marks, random_delay_ns)
    _forget_compiled(cell)
    cell.compile, cell.compile_and_run = attached.compile, attached.compile_and_run
    _ATTACHED[id(cell)] = attached
    return attached


def detach(cell: Any) -> None:
    """The cell runs as before it was attached, with the values it has now. Raises `AttachError` where it was not."""
    attached = _ATTACHED.pop(id(cell), None)
    if attached is None:
        raise AttachError(f"{type(cell).__name__} has no schedule to detach")
    del cell.compile, cell.compile_and_run
    _forget_compiled(cell)
    attached.release()


def refuse_other_graph(live: Graph, scheduled: Graph) -> None:
    """Raise `AttachError` naming the first difference between the cell's graph and the one of the schedule."""
    if live.hash == scheduled.hash:
        return
    again = "compile the schedule again for this model and these inputs"
    for ours, theirs in zip(live.ops, scheduled.ops, strict=False):
        if (ours.primitive, ours.scope) != (theirs.primitive, theirs.scope):
            raise AttachError(f"the cell's op {ours.id} is {ours.name}, the schedule's is {theirs.name}; {again}")
    if len(live.ops) != len(scheduled.ops):
        raise AttachError(f"the cell has {len(live.ops)} ops, the schedule {len(scheduled.ops)}; {again}")
    for mine, other in zip(live.storages, scheduled.storages, strict=False):
        if (mine.shape, mine.dtype, mine.bytes) != (other.shape, other.dtype, other.bytes):
            raise AttachError(
                f"{mine.name} is {mine.dtype}{list(mine.shape)} in the cell, {other.dtype}{list(other.shape)} in the "
                f"schedule; {again}"
            )
    raise AttachError(f"the cell's graph is another one than the schedule's; {again}")


def _movable(
    live: LiveGraph, schedule: Schedule, roots: Mapping[int, str], parameters: Mapping[str, Parameter]
) -> tuple[set[int], dict[str, str]]:
    """The storages that can move in graph mode, and why each other one that the schedule moves cannot."""
    movable, stays = set(), {}
    for number in sorted({t.storage for t in schedule.transfers}):
        storage = schedule.graph.storages[number]
        if storage.persistent:
            name = live.parameters.get(number)
            if name is None or name not in parameters:
                stays[storage.name] = "a constant of the graph, which MindSpore keeps"
            elif storage.bytes < PAGE_BYTES:
                stays[storage.name] = f"smaller than a page of memory ({PAGE_BYTES} bytes)"
            else:
                movable.add(number)
        elif storage.tensor_class == "input":
            stays[storage.name] = "an input, which the caller holds"
        elif number not in roots:
            stays[storage.name] = "no single op of the graph gives it as a whole"
        else:
            movable.add(number)
    return movable, stays


def _pool_slots(graph: Graph, storages: Sequence[int]) -> tuple[dict[int, int], int]:
    """Where each storage is in the pool, and the pool's size."""
    slots: dict[int, int] = {}
    end = 0
    for storage in storages:
        alignment = PAGE_BYTES if graph.storages[storage].persistent else TENSOR_ALIGNMENT
        slots[storage] = start = -(-end // alignment) * alignment
        end = start + -(-graph.storages[storage].bytes // alignment) * alignment
    return slots, end


def _give_back_free_memory() -> None:
    """What compiling and the parameters' former memory left behind goes back to the system, where the C library can."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _forget_compiled(cell: Any) -> None:
    """MindSpore compiles the cell anew at its next call."""
    if cell.compile_cache:
        _cell_graph_executor.del_net_res(cell, cell.compile_cache)
        cell.compile_cache.clear()
