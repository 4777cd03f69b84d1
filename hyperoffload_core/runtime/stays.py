"""Which events begin and end each stay on the device, read from a schedule.

A schedule gives a stay as a predicted interval. At run time it begins and ends with events: it begins with the step,
with the start of a Prefetch or with the start of its first writer, and ends when the last op and transfer that use it
have ended, or with the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hyperoffload_core.ir import storages_of
from hyperoffload_core.runtime.errors import ExecutionError
from hyperoffload_core.schedule import Residency, Schedule

Begin = Literal["step", "op", "transfer"]


@dataclass(frozen=True, slots=True)
class Stay:
    """``begins_with`` names what begins it and ``first`` which op or transfer (-1: the step).

    ``ops`` and ``transfers`` are those that use it, ascending in planned time; ``to_end``: it outlives them all.
    """

    residency: Residency
    bytes: int
    begins_with: Begin
    first: int
    ops: tuple[int, ...]
    transfers: tuple[int, ...]
    to_end: bool


@dataclass(frozen=True)
class Stays:
    """``stays`` in the schedule's order; indices of them by (op, storage) and by transfer id."""

    stays: tuple[Stay, ...]
    of_op: Mapping[tuple[int, int], int]
    of_transfer: Mapping[int, int]
    first_of: Mapping[int, int]
    last_of: Mapping[int, int]


def stays_of(schedule: Schedule) -> Stays:
    """Raises `ExecutionError` for an op or transfer that uses a storage when, by plan, it is not on the device, and for
    a storage at home on the device that ends the step at another address than it starts the next one."""
    graph = schedule.graph
    by_storage: dict[int, list[int]] = {}
    for index in sorted(range(len(schedule.residencies)), key=lambda i: schedule.residencies[i].start_ns):
        by_storage.setdefault(schedule.residencies[index].storage, []).append(index)
    ops: list[list[int]] = [[] for _ in schedule.residencies]
    transfers: list[list[int]] = [[] for _ in schedule.residencies]
    of_op: dict[tuple[int, int], int] = {}
    of_transfer: dict[int, int] = {}

    def stay_during(storage: int, start_ns: int, end_ns: int, user: str) -> int:
        for index in reversed(by_storage.get(storage, [])):
            stay = schedule.residencies[index]
            if stay.start_ns <= start_ns and end_ns <= stay.end_ns:
                return index
        name = graph.storages[storage].name
        raise ExecutionError(
            f"{user} uses storage {name!r} from {start_ns} to {end_ns} ns, when it is not on the device"
        )

    times = {t.op: t for t in schedule.op_times}
    for op in schedule.order:
        for storage in storages_of(graph.ops[op]):
            time = times[op]
            index = stay_during(storage, time.start_ns, time.end_ns, f"op {graph.ops[op].name!r}")
            ops[index].append(op)
            of_op[op, storage] = index
    for transfer in sorted(schedule.transfers, key=lambda t: t.start_ns):
        user = f"transfer {transfer.id} ({transfer.kind})"
        index = stay_during(transfer.storage, transfer.start_ns, transfer.end_ns, user)
        transfers[index].append(transfer.id)
        of_transfer[transfer.id] = index

    by_id = {t.id: t for t in schedule.transfers}
    result = []
    for index, residency in enumerate(schedule.residencies):
        described = graph.storages[residency.storage]
        chain = by_storage[described.id]
        on_device = not described.persistent or schedule.homes[described.id] == "device"
        fetches = [t for t in transfers[index] if by_id[t].kind == "prefetch"]
        fetched = bool(fetches) and by_id[fetches[0]].start_ns == residency.start_ns
        begins_with: Begin
        if index == chain[0] and graph.exists_at_start(described.id) and on_device and not fetched:
            begins_with, first = "step", -1
        elif fetches and (fetched or not ops[index] or by_id[fetches[0]].start_ns < times[ops[index][0]].start_ns):
            begins_with, first = "transfer", fetches[0]
        elif ops[index]:
            begins_with, first = "op", ops[index][0]
        else:
            raise ExecutionError(
                f"storage {described.name!r} is on the device from {residency.start_ns} ns for no reason"
            )
        result.append(
            Stay(
                residency=residency,
                bytes=described.bytes,
                begins_with=begins_with,
                first=first,
                ops=tuple(ops[index]),
                transfers=tuple(transfers[index]),
                to_end=index == chain[-1] and graph.lives_to_end(described.id) and on_device,
            )
        )
    for storage_id, chain in by_storage.items():
        if not graph.storages[storage_id].persistent or schedule.homes[storage_id] == "pool":
            continue
        start, end = schedule.residencies[chain[0]].offset, schedule.residencies[chain[-1]].offset
        if start != end:
            name = graph.storages[storage_id].name
            raise ExecutionError(
                f"storage {name!r} is at home on the device at address {start} and ends the step at {end};"
                " the next step would look for it in the wrong place"
            )
    return Stays(
        stays=tuple(result),
        of_op=of_op,
        of_transfer=of_transfer,
        first_of={storage: chain[0] for storage, chain in by_storage.items()},
        last_of={storage: chain[-1] for storage, chain in by_storage.items()},
    )
