"""Executes a schedule: MindSpore kernels on the device arena, transfers on copy threads, events between them.

The calling thread is the compute stream. It runs ops in ``schedule.order``; an op starts when its predecessor and its
``waits`` have ended. Nothing looks at predicted times, except to read from them which stay an op uses.

A step's clock starts when its inputs lie at their planned addresses and stops when the last op and the last transfer
have ended; results are copied out after that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter_ns, sleep
from types import TracebackType
from typing import Any

import numpy as np
from mindspore import Tensor
from numpy.typing import NDArray

from hyperoffload_core.program import CapturedModel, TensorView
from hyperoffload_core.runtime.arena import Arena
from hyperoffload_core.runtime.errors import ExecutionCancelledError, ExecutionError
from hyperoffload_core.runtime.kernels import Kernel, use_synchronous_kernels
from hyperoffload_core.runtime.links import Copy, CopyThread
from hyperoffload_core.runtime.places import Places
from hyperoffload_core.runtime.poison import Poison
from hyperoffload_core.runtime.pool import Pool, pooled_storages
from hyperoffload_core.runtime.progress import COMPUTE, Progress, StoppedError
from hyperoffload_core.runtime.recorder import OP_COLUMNS, Recorder
from hyperoffload_core.runtime.stays import stays_of
from hyperoffload_core.schedule import Schedule, Transfer

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class StepResult:
    """``results`` are copies of the graph's results; ``loss`` is the first of them if it is a single number."""

    results: tuple[Array, ...]
    loss: float | None
    step_ns: int


@dataclass(frozen=True, slots=True)
class _Step:
    """One op made concrete: ``waits`` are (stream, count) pairs; the stays it begins and uses matter to poisoning."""

    kernel: Kernel
    waits: tuple[tuple[int, int], ...]
    begins: tuple[int, ...]
    uses: tuple[int, ...]


class Executor:
    """Runs steps of one schedule; holds the arena, the pool and the copy threads until `close`.

    ``paced`` stretches copies to the bandwidth of ``schedule.hardware``; otherwise they run at memory speed.
    ``delays_s`` puts a random delay of up to so many seconds into every op and transfer and ``poison`` fills memory
    with NaN wherever no valid value is (both for tests: neither may change a result).
    ``timeout_s`` is how long an op may wait while no byte moves on any link before the step is given up as deadlocked.
    """

    def __init__(
        self,
        captured: CapturedModel,
        schedule: Schedule,
        *,
        paced: bool = True,
        delays_s: float = 0.0,
        seed: int = 0,
        poison: bool = False,
        timeout_s: float = 60.0,
    ) -> None:
        original = schedule.graph.original
        if captured.graph.hash != original.hash:
            raise ExecutionError(
                f"the schedule was made for graph {schedule.graph.name!r} ({original.hash[:12]}),"
                f" not for {captured.graph.name!r} ({captured.graph.hash[:12]})"
            )
        use_synchronous_kernels()
        self.captured = captured
        self.schedule = schedule
        self._graph = schedule.graph
        self._delays_s = delays_s
        self._timeout_s = timeout_s
        self._random = np.random.default_rng(seed)
        self._plan = stays_of(schedule)
        self._arena = Arena(schedule.metrics.reserved_bytes)
        self._pool = Pool(self._graph, pooled_storages(schedule))
        self._places = Places(schedule, self._plan, self._arena, self._pool)
        self._poison = Poison(self._arena, self._plan.stays) if poison else None
        self._links = schedule.link_transfers()
        self._positions = {op: position for position, op in enumerate(schedule.order)}
        self._counts = {t.id: (1 + n, 1 + i) for n, link in enumerate(self._links) for i, t in enumerate(link)}
        self._progress = Progress(1 + len(self._links))
        self._stamps = np.zeros(2 * len(schedule.transfers), np.int64)
        self._failed: str | None = None
        self._closed = False
        self._tensors: dict[tuple[int, tuple[int, ...], str], Tensor] = {}
        waits = {t.op: t.waits for t in schedule.op_times}
        uses: dict[int, list[int]] = {op: [] for op in schedule.order}
        for (op, _), index in self._plan.of_op.items():
            uses[op].append(index)
        self._steps = [self._concrete_op(op, waits[op], tuple(uses[op])) for op in schedule.order]
        rows = {t.id: row for row, t in enumerate(schedule.transfers)}
        self._threads = [
            CopyThread(
                1 + n,
                f"copy-{n}",
                [self._concrete_transfer(t, rows[t.id]) for t in link],
                self._progress,
                self._stamps.data,
                paced=paced,
                delay_s=delays_s,
                seed=seed + 1 + n,
            )
            for n, link in enumerate(self._links)
            if link
        ]
        self._loaded = False
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Executor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the copy threads and give the memory back. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._progress.stop()
        for thread in self._threads:
            thread.close()
        self._steps.clear()
        self._tensors.clear()
        self._threads.clear()
        del self._places, self._arena, self._pool, self._poison

    @property
    def arena_bytes(self) -> int:
        return self._arena.size_bytes

    @property
    def pool_bytes(self) -> int:
        return self._pool.size_bytes

    def load(self, values: Mapping[int, Array] | None = None) -> None:
        """Put every persistent storage's value (by default the captured one) into its home.

        Raises `ExecutionError` for a storage without a value or with one of another size.
        """
        values = self.captured.values if values is None else values
        if self._poison is not None:
            self._arena.poison(0, self._arena.size_bytes)
            for storage in self._pool.slots:
                self._pool.poison(storage)
        for described in self._graph.storages:
            if not described.persistent:
                continue
            if described.id not in values:
                raise ExecutionError(
                    f"{described.tensor_class} {described.name!r} has no value;"
                    " capture the model with weights to run it"
                )
            self._places.put(described.id, values[described.id])
        self._loaded = True

    def values(self) -> dict[int, Array]:
        """A copy of each persistent storage's newest value, from its home."""
        self._require_ready()
        result = {}
        for storage in self._graph.storages:
            if storage.persistent:
                like = self.captured.values[storage.id]
                home = self._places.home(storage.id)
                result[storage.id] = home.copy().view(like.dtype).reshape(like.shape)
        return result

    def run_step(
        self,
        inputs: Sequence[Array],
        *,
        recorder: Recorder | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> StepResult:
        """One step; ``inputs`` in the order of ``captured.inputs``. ``cancelled`` is asked between ops.

        After an error or a cancelled step storages hold a mixture of steps, and the executor runs no more.
        """
        self._require_ready()
        if self._poison is not None:
            self._poison.restart()
            for storage in self._pool.slots:
                if not self._graph.storages[storage].persistent:
                    self._pool.poison(storage)
        self._places.put_inputs(self.captured.inputs, inputs)
        self._progress.restart()
        try:
            start_ns = perf_counter_ns()
            for thread in self._threads:
                thread.begin_step()
            self._run_ops(recorder.rows().ops if recorder is not None else None, cancelled)
            for thread in self._threads:
                self._wait(thread.stream, thread.count, "the end of the step")
            end_ns = perf_counter_ns()
        except BaseException as error:
            self._abandon(error)
            raise
        results = tuple(self._places.result(view) for view in self.captured.program.results)
        loss = float(results[0].reshape(()).astype(np.float64)) if results and results[0].size == 1 else None
        if recorder is not None:
            recorder.rows().transfers[:] = self._stamps.reshape(-1, 2)
            recorder.finish(start_ns, end_ns, loss)
        return StepResult(results, loss, end_ns - start_ns)

    def _run_ops(self, rows: memoryview | None, cancelled: Callable[[], bool] | None) -> None:
        progress, poison, delays_s = self._progress, self._poison, self._delays_s
        done, advance = progress.done, progress.advance
        row = 0
        for step in self._steps:
            if cancelled is not None and cancelled():
                raise ExecutionCancelledError("the run was cancelled")
            if progress.stopped:
                raise StoppedError
            if rows is not None:
                rows[row] = rows[row + 1] = perf_counter_ns()
            for stream, count in step.waits:
                if done[stream] < count:
                    self._wait(stream, count, f"op {step.kernel.op_name!r}")
                    if rows is not None:
                        rows[row + 1] = perf_counter_ns()
            if poison is not None:
                for index in step.begins:
                    poison.begin(index)
            if delays_s:
                sleep(delays_s * self._random.random())
            copy_ns = step.kernel.run()
            if poison is not None:
                for index in step.uses:
                    poison.used(index)
            if rows is not None:
                rows[row + 2] = perf_counter_ns()
                rows[row + 3] = copy_ns
                row += OP_COLUMNS
            advance(COMPUTE)

    def _wait(self, stream: int, count: int, who: str) -> None:
        moved = -1
        while not self._progress.wait(stream, count, self._timeout_s):
            now = sum(t.bytes_moved for t in self._threads)
            if now == moved:
                raise ExecutionError(
                    f"{who} has waited {self._timeout_s:g} s for {self._describe(stream, count)}, and no byte moved;"
                    f" {self._describe_links()}"
                )
            moved = now

    def _abandon(self, error: BaseException) -> None:
        """Stop every stream and wait until no thread touches memory; a copy thread's error takes the place of
        `StoppedError`."""
        self._progress.stop()
        for thread in self._threads:
            thread.wait_until_idle()
        self._failed = str(error) or type(error).__name__
        for thread in self._threads:
            if thread.error is not None:
                self._failed = f"{thread.name} failed: {thread.error}"
                raise ExecutionError(self._failed) from thread.error

    def _require_ready(self) -> None:
        if self._closed:
            raise ExecutionError("the executor is closed")
        if self._failed is not None:
            raise ExecutionError(f"an earlier step did not end, so storages hold a mixture of steps: {self._failed}")
        if not self._loaded:
            raise ExecutionError("load() must put the persistent values in place before the first step")

    # Making the schedule concrete.

    def _concrete_op(self, op: int, transfers: tuple[int, ...], uses: tuple[int, ...]) -> _Step:
        waits: dict[int, int] = {}
        for transfer in transfers:
            stream, count = self._counts[transfer]
            waits[stream] = max(waits.get(stream, 0), count)
        name = self._graph.ops[op].name
        read, written = self._copies(self._graph.ops[op].reads), self._copies(self._graph.ops[op].writes)

        def memory(view: TensorView, storage: int) -> Array:
            if (op, storage) not in self._plan.of_op:
                raise ExecutionError(f"op {name!r} has an argument in storage {storage}, which it does not access")
            stay = self._plan.stays[self._plan.of_op[op, storage]]
            return self._arena.view(stay.residency.offset + view.offset_bytes, view.shape, view.dtype)

        def place(view: TensorView) -> Array:
            return memory(view, written.get(view.storage, view.storage))

        def share(view: TensorView) -> Tensor:
            array = memory(view, read.get(view.storage, view.storage))
            key = (array.ctypes.data, view.shape, view.dtype)
            if key not in self._tensors:
                self._tensors[key] = Tensor.from_numpy(array)
            return self._tensors[key]

        stays = self._plan.stays
        return _Step(
            kernel=Kernel(self.captured.program.calls[self._graph.origins[op]], name, place, share),
            waits=tuple(waits.items()),
            begins=tuple(i for i in uses if stays[i].begins_with == "op" and stays[i].first == op),
            uses=uses,
        )

    def _copies(self, storages: Sequence[int]) -> dict[int, int]:
        """The copy that takes the place of an original storage, where the program names only the original."""
        of = {s: self._graph.storages[s].recompute_of for s in storages}
        return {original: s for s, original in of.items() if original is not None}

    def _concrete_transfer(self, transfer: Transfer, row: int) -> Copy:
        stream, place = self._counts[transfer.id]
        waits: dict[int, int] = {}
        if transfer.after_ops:
            waits[COMPUTE] = 1 + max(self._positions[op] for op in transfer.after_ops)
        for other in transfer.after_transfers:
            other_stream, count = self._counts[other]
            if other_stream == stream and count >= place:
                raise ExecutionError(f"transfer {transfer.id} waits for transfer {other}, which its link runs later")
            if other_stream != stream:
                waits[other_stream] = max(waits.get(other_stream, 0), count)
        index = self._plan.of_transfer[transfer.id]
        part = slice(transfer.offset_bytes, transfer.offset_bytes + transfer.bytes)
        device, remote = self._places.stay(index)[part], self._pool.slots[transfer.storage][part]
        before = after = None
        if self._poison is not None:
            stay = self._plan.stays[index]
            if stay.begins_with == "transfer" and stay.first == transfer.id:
                before = partial(self._poison.begin, index)
            after = partial(self._poison.used, index)
        fetch = transfer.kind == "prefetch"
        hardware = self.schedule.hardware
        return Copy(
            row=row,
            source=remote if fetch else device,
            target=device if fetch else remote,
            link=hardware.link_in if fetch else hardware.link_out,
            waits=tuple(waits.items()),
            before=before,
            after=after,
        )

    # Saying what is awaited.

    def _describe(self, stream: int, count: int) -> str:
        if stream == COMPUTE:
            return f"op {self._graph.ops[self.schedule.order[count - 1]].name!r}"
        transfer = self._links[stream - 1][count - 1]
        return f"transfer {transfer.id} ({transfer.kind} of {self._graph.storages[transfer.storage].name!r})"

    def _describe_links(self) -> str:
        waiting = []
        for thread in self._threads:
            if thread.waiting_for is not None:
                row, stream, count = thread.waiting_for
                transfer = self.schedule.transfers[row]
                waiting.append(f"transfer {transfer.id} ({transfer.kind}) waits for {self._describe(stream, count)}")
        return "; ".join(waiting) or "no transfer waits for anything"
