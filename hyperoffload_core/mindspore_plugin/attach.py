"""A cell whose next compile in MindSpore's graph mode applies a schedule, and that runs under it until detached.

Activations travel as tensors of the graph. A parameter that the schedule moves gets memory of ours (a region): while
it is remote its memory shows the pool's copy, so reading it, checkpoints and assignments from Python work as ever.
"""

from __future__ import annotations

import ctypes
import gc
import warnings
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MethodType
from typing import Any
from weakref import WeakValueDictionary

import mindspore as ms
import numpy as np
from mindspore import Tensor
from mindspore.graph.api import JitExecutor_, _cell_graph_executor, _pynative_executor, ms_compile_cache
from numpy.typing import NDArray

from hyperoffload_core.capture.functions import as_cell, positional
from hyperoffload_core.capture.mindir import graph_mode
from hyperoffload_core.capture.roles import all_parameters
from hyperoffload_core.mindspore_plugin import passes
from hyperoffload_core.mindspore_plugin.chain import Chain, build_chain
from hyperoffload_core.mindspore_plugin.edits import Plan, plan_text
from hyperoffload_core.mindspore_plugin.fitting import PAGE_BYTES, AttachError, movable_storages, refuse_other_graph
from hyperoffload_core.mindspore_plugin.foreseen import (
    foreseen_graph,
    holds_for,
    refuse_inputs_set,
    refuse_other_inputs,
)
from hyperoffload_core.mindspore_plugin.insertion import Editor, last_readers, tensor_roots
from hyperoffload_core.mindspore_plugin.kernels import EVENT, Kernels, Session, load_kernels, open_session
from hyperoffload_core.mindspore_plugin.nodes import LiveGraph, live_graph
from hyperoffload_core.mindspore_plugin.parameters import Owned, pool_slots, take_parameters
from hyperoffload_core.mindspore_plugin.resident import with_releases
from hyperoffload_core.schedule import Schedule


@dataclass(frozen=True)
class Inserted:
    """What the pass did: nodes it added, inputs it changed, and what stays on the device although the schedule moves
    it (storage names with the reason)."""

    new_nodes: int
    changed_inputs: int
    stays: Mapping[str, str]


@dataclass(eq=False)
class Attached:
    """A cell or function (``target``) with a schedule; call it as ever. Made by `attach`, ended by `detach`.

    A function runs as the cell ``cell``, also in PyNative mode.
    """

    target: Any
    cell: Any
    schedule: Schedule
    kernels: Kernels | None = None
    folder: Path | None = None
    paced: bool = True
    marks: bool = False
    random_delay_ns: int = 0
    session: Session | None = None
    owned: list[Owned] = field(default_factory=list)
    inserted: Inserted | None = None
    chain: Chain | None = None
    detached: bool = False
    replaced: dict[str, Any] = field(default_factory=dict)
    live: LiveGraph | None = None
    _others: bool = False

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        if self.detached or self.target is self.cell:
            return self.target(*inputs, **named)
        if _pynative_executor.requires_grad():
            raise AttachError(
                f"{self.name} is differentiated from outside, which a schedule does not cover; attach the function "
                "that computes the gradients too"
            )
        return self.cell.compile_and_run(*positional(self.target, inputs, named))

    @property
    def name(self) -> str:
        return getattr(self.target, "__name__", type(self.target).__name__)

    @property
    def is_inserted(self) -> bool:
        """Whether the cell's compiled graph is under the schedule."""
        return self.session is not None

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """In the place of ``cell.compile``: a graph that is not compiled yet is compiled with the schedule, and
        parameters that were given other memory are taken over."""
        if not self.is_inserted:
            self.insert(args, kwargs)
        else:
            self.compile_again(args, kwargs)
        for owned in self.owned:
            owned.adopt()

    def compile_again(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """MindSpore's own way for inputs that it knows, and for others, which run without the schedule."""
        known = len(self.cell.compile_cache)
        with graph_mode():
            type(self.cell).compile(self.cell, *args, **kwargs)
        if len(self.cell.compile_cache) > known and not self._others:
            self._others = True
            shown = ", ".join(f"{a.dtype}{list(a.shape)}" for a in args if isinstance(a, Tensor))
            warnings.warn(
                f"{self.name} has other inputs ({shown}) than its schedule was made for, or another mode: "
                "such steps run without a schedule",
                stacklevel=4,
            )

    def compile_and_run(self, *args: Any, **kwargs: Any) -> Any:
        """In the place of ``cell.compile_and_run``, which calls `compile`: a failed step is said."""
        # A compiled graph that MindSpore keeps under its phase would be run past this.
        self.cell.phase_cache.clear()
        try:
            return type(self.cell).compile_and_run(self.cell, *args, **kwargs)
        except BaseException as error:
            if self.session is None:
                raise
            said = self.session.abandon()
            # MindSpore never runs a compiled graph again once a step of it has failed; the next call compiles anew.
            self.release()
            self.forget_compiled()
            if said and isinstance(error, Exception):
                raise AttachError(f"the step stopped: {said}") from error
            raise

    def take_events(self) -> NDArray[np.void]:
        """What the kernels recorded since the last call (`kernels.EVENT`)."""
        return np.empty(0, EVENT) if self.session is None else self.session.take_events()

    def refuse_named(self, kwargs: Mapping[str, Any]) -> None:
        """Raise `AttachError` for inputs that are given by name."""
        if kwargs:
            raise AttachError(f"{self.name} takes {next(iter(kwargs))!r} by name only, which a schedule does not cover")

    def forget_compiled(self) -> None:
        """MindSpore compiles the cell, and every function of `mindspore.jit`, anew at its next call.

        What such a function was compiled to goes on with the memory that a parameter had before ``set_data``, where
        cells take over the new one. So none must outlive a change of memory.
        """
        self.cell.phase_cache.clear()
        if self.cell.compile_cache:
            _cell_graph_executor.del_net_res(self.cell, self.cell.compile_cache)
            self.cell.compile_cache.clear()
        if ms_compile_cache:
            _cell_graph_executor.del_net_res(None, ms_compile_cache)
            JitExecutor_.get_instance().del_net_res(None, ms_compile_cache)
            ms_compile_cache.clear()

    def insert(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Compile the cell for these inputs under the schedule. Raises `AttachError`."""
        self.refuse_named(kwargs)
        known, self.live = self.live, None
        if known is not None and holds_for(known, args):
            with suppress(AttachError):  # the cell was changed since, or the graph is not as it seemed
                self.insert_into(known, args)
                self.live = known
                return
        self.insert_into(self.graph_of(args), args)

    def graph_of(self, args: Sequence[Any]) -> LiveGraph:
        """The cell's graph for these inputs. Raises `AttachError` where it is another one than the schedule's."""
        refuse_other_inputs(args, f"{self.name} is called with", self.schedule)
        live = live_graph(self.cell, args, self.schedule.graph.name)
        refuse_other_graph(live.graph, self.schedule.graph.original)
        return live

    def insert_into(self, live: LiveGraph, args: Sequence[Any]) -> None:
        """Compile the cell with the schedule in this graph of it. Raises `AttachError`."""
        self.forget_compiled()
        assert self.kernels is not None
        roots = tensor_roots(live, self.schedule.graph)
        parameters = all_parameters(self.cell)
        movable, stays = movable_storages(live, self.schedule, roots, parameters)
        readers = last_readers(self.schedule)
        tensors = {s: p for s, p in readers.items() if s in roots}
        chain = with_releases(build_chain(self.schedule, movable, tensors), self.schedule, readers, roots)
        slots, pool_bytes = pool_slots(self.schedule.graph, sorted({m.storage for m in chain.moves}))
        hardware = self.schedule.hardware
        session = open_session(
            self.kernels,
            max(pool_bytes, PAGE_BYTES),
            link_out=hardware.link_out,
            link_in=hardware.link_in,
            half_duplex=hardware.duplex == "half",
            folder=self.folder,
            paced=self.paced,
            random_delay_ns=self.random_delay_ns,
        )
        self._close = weakref.finalize(self, session.close)
        self._close.atexit = False
        self.session = session
        try:
            moved = {m.storage for m in chain.moves}
            taken = take_parameters(session, self.schedule, live.parameters, moved, slots, parameters, self.owned)
            for move in chain.moves:
                if move.storage in taken:
                    session.region_command(move.index, move.kind, taken[move.storage].region)
                else:
                    size = self.schedule.graph.storages[move.storage].bytes
                    session.tensor_command(move.index, move.kind, size, slots[move.storage])
            for move in chain.moves:
                session.command_after(move.index, move.after)
            _give_back_free_memory()
            plan = Editor(live, self.schedule, chain, roots, session.kernel_id, self.marks).plan()
            said = compile_with_plan(self.cell, args, plan)
        except BaseException:
            self.release()
            raise
        self.inserted = Inserted(said.new_nodes, said.changed_inputs, stays)
        self.chain = chain

    def release(self) -> None:
        """The parameters' values come back into memory MindSpore owns, and the pool goes."""
        for owned in self.owned:
            owned.give_back()
        self.owned.clear()
        if self.session is not None:
            self._close()
            self.session = None


_ATTACHED: WeakValueDictionary[tuple[int, ...], Attached] = WeakValueDictionary()
# What of a cell is ours while it is attached.
_REPLACED = ("compile", "compile_and_run")


def attach(
    target: Any,
    schedule: Schedule,
    *,
    pool_folder: Path | None = None,
    paced: bool = True,
    marks: bool = False,
    random_delay_ns: int = 0,
    live: LiveGraph | None = None,
) -> Attached:
    """Run a cell, or a function as `mindspore.jit` takes it, in graph mode under ``schedule`` from its next call on.

    A cell may be called as before; a function, which nothing can be put into, is called by what this returns. The pool
    is shared memory, or a file without a name in ``pool_folder``. ``paced`` holds copies back to the links of the
    schedule's hardware; ``marks`` records when every op ran; ``live`` is the graph for the same inputs where it is
    known, which saves a compile. On Ascend, where none of this has run, MindSpore's own cache operators move everything
    and only ``live`` counts. Raises `UserError` kinds where MindSpore's mode, version or the compiler does not fit, and
    `AttachError` where the graph is another one than the schedule's; where inputs are not only tensors, the next call
    does.
    """
    if (there := _attached(target)) is not None:
        raise AttachError(f"{there.name} has a schedule already; detach it first")
    cell = as_cell(target)
    if cell is target and ms.get_context("mode") != ms.GRAPH_MODE:
        raise AttachError("the schedule needs graph mode; call mindspore.set_context(mode=mindspore.GRAPH_MODE) before")
    if ms.get_context("device_target") == "Ascend":
        from hyperoffload_core.mindspore_plugin.on_ascend import AttachedOnAscend

        passes.register("ascend")
        attached: Attached = AttachedOnAscend(target, cell, schedule)
    else:
        kernels = load_kernels(passes.prepare())
        passes.register("cpu")
        attached = Attached(target, cell, schedule, kernels, pool_folder, paced, marks, random_delay_ns)
    refuse_inputs_set(cell, attached.name, schedule)
    attached.live = live or foreseen_graph(cell, schedule)
    attached.forget_compiled()
    attached.replaced = {name: vars(cell)[name] for name in _REPLACED if name in vars(cell)}
    cell.compile, cell.compile_and_run = attached.compile, attached.compile_and_run
    _ATTACHED[_key(target)] = attached
    return attached


def detach(target: Any) -> None:
    """The cell or function, or what `attach` returned for it, runs as before, with the parameters' values of now.

    Raises `AttachError` where it was not attached.
    """
    attached = _attached(target.target if isinstance(target, Attached) else target)
    if attached is None:
        raise AttachError(f"{getattr(target, '__name__', type(target).__name__)} has no schedule to detach")
    del _ATTACHED[_key(attached.target)]
    attached.detached = True
    for name in _REPLACED:
        delattr(attached.cell, name)
    vars(attached.cell).update(attached.replaced)
    attached.forget_compiled()
    attached.release()


def _attached(target: Any) -> Attached | None:
    found = _ATTACHED.get(_key(target))
    return found if found is not None and _key(found.target) == _key(target) else None


def _key(target: Any) -> tuple[int, ...]:
    """A method is another object each time it is asked for."""
    return (id(target.__self__), id(target.__func__)) if isinstance(target, MethodType) else (id(target),)


def compile_with_plan(cell: Any, inputs: Sequence[Any], plan: Plan) -> passes.Applied:
    """Compile the cell in graph mode with the plan's edits. Raises `AttachError` where its graph does not take them."""
    passes.set_plan(plan_text(plan))
    try:
        with graph_mode():
            type(cell).compile(cell, *inputs)
    finally:
        said = passes.report()
        passes.set_plan("")
    if not isinstance(said, passes.Applied):
        reason = said.reason if said is not None else "MindSpore ran no pass on the graph"
        raise AttachError(f"MindSpore's graph did not take the schedule: {reason}")
    return said


def _give_back_free_memory() -> None:
    """What compiling and the parameters' former memory left behind goes back to the system, where the C library can."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
