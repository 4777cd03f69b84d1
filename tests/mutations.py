"""Random damage to a schedule: an edge dropped, addresses moved, a transfer gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

from hyperoffload_core.schedule import Schedule


def drop_wait(random: Random, schedule: Schedule) -> Schedule:
    rows = [i for i, t in enumerate(schedule.op_times) if t.waits]
    if not rows:
        return schedule
    times, row = list(schedule.op_times), random.choice(rows)
    gone = random.choice(times[row].waits)
    times[row] = replace(times[row], waits=tuple(w for w in times[row].waits if w != gone))
    return replace(schedule, op_times=tuple(times))


def drop_after_op(random: Random, schedule: Schedule) -> Schedule:
    rows = [i for i, t in enumerate(schedule.transfers) if t.after_ops]
    if not rows:
        return schedule
    transfers, row = list(schedule.transfers), random.choice(rows)
    gone = random.choice(transfers[row].after_ops)
    transfers[row] = replace(transfers[row], after_ops=tuple(o for o in transfers[row].after_ops if o != gone))
    return replace(schedule, transfers=tuple(transfers))


def earlier_after_op(random: Random, schedule: Schedule) -> Schedule:
    """A transfer waits for the predecessor of the op that it should wait for."""
    rows = [i for i, t in enumerate(schedule.transfers) if t.after_ops]
    if not rows:
        return schedule
    transfers, row = list(schedule.transfers), random.choice(rows)
    before = {later: earlier for earlier, later in pairwise(schedule.order)}
    moved = random.choice(transfers[row].after_ops)
    kept = [o for o in transfers[row].after_ops if o != moved] + ([before[moved]] if moved in before else [])
    transfers[row] = replace(transfers[row], after_ops=tuple(kept))
    return replace(schedule, transfers=tuple(transfers))


def drop_after_transfer(random: Random, schedule: Schedule) -> Schedule:
    rows = [i for i, t in enumerate(schedule.transfers) if t.after_transfers]
    if not rows:
        return schedule
    transfers, row = list(schedule.transfers), random.choice(rows)
    gone = random.choice(transfers[row].after_transfers)
    kept = tuple(o for o in transfers[row].after_transfers if o != gone)
    transfers[row] = replace(transfers[row], after_transfers=kept)
    return replace(schedule, transfers=tuple(transfers))


def move_address(random: Random, schedule: Schedule) -> Schedule:
    if not schedule.residencies:
        return schedule
    rows = list(schedule.residencies)
    row = random.randrange(len(rows))
    top = schedule.metrics.reserved_bytes - schedule.graph.storages[rows[row].storage].bytes
    rows[row] = replace(rows[row], offset=random.randint(0, max(0, top)))
    return replace(schedule, residencies=tuple(rows))


def drop_transfer(random: Random, schedule: Schedule) -> Schedule:
    if not schedule.transfers:
        return schedule
    gone = random.choice(schedule.transfers).id
    times = [replace(t, waits=tuple(w for w in t.waits if w != gone)) for t in schedule.op_times]
    transfers = [
        replace(t, after_transfers=tuple(o for o in t.after_transfers if o != gone))
        for t in schedule.transfers
        if t.id != gone
    ]
    return replace(schedule, op_times=tuple(times), transfers=tuple(transfers))


def change_home(random: Random, schedule: Schedule) -> Schedule:
    homes = list(schedule.homes)
    storage = random.randrange(len(homes))
    homes[storage] = "pool" if homes[storage] == "device" else "device"
    return replace(schedule, homes=tuple(homes))


def shorten_stay(random: Random, schedule: Schedule) -> Schedule:
    if not schedule.residencies:
        return schedule
    rows = list(schedule.residencies)
    row = random.randrange(len(rows))
    end = random.randint(rows[row].start_ns, rows[row].end_ns)
    rows[row] = replace(rows[row], end_ns=end)
    return replace(schedule, residencies=tuple(rows))


def swap_ops(random: Random, schedule: Schedule) -> Schedule:
    """Two neighbours in the order change places; each keeps its own waits and takes the other's time if it fits."""
    if len(schedule.order) < 2:
        return schedule
    at = random.randrange(len(schedule.order) - 1)
    order = list(schedule.order)
    first, second = order[at], order[at + 1]
    order[at], order[at + 1] = second, first
    time = {t.op: t for t in schedule.op_times}
    start = time[first].start_ns
    middle = start + schedule.durations_ns[second]
    end = max(time[second].end_ns, middle + schedule.durations_ns[first])
    time[second] = replace(time[second], start_ns=start, end_ns=middle)
    time[first] = replace(time[first], start_ns=end - schedule.durations_ns[first], end_ns=end)
    return replace(schedule, order=tuple(order), op_times=tuple(time[op] for op in order))


MUTATIONS: tuple[Callable[[Random, Schedule], Schedule], ...] = (
    drop_wait,
    drop_after_op,
    earlier_after_op,
    drop_after_transfer,
    move_address,
    drop_transfer,
    change_home,
    shorten_stay,
    swap_ops,
)
