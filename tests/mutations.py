"""Random damage to a schedule: an edge dropped, addresses moved, a transfer gone, a recomputed op that lies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from random import Random

from hyperoffload_core.ir import Op
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


def keep_by_rule(random: Random, schedule: Schedule) -> Schedule:
    """The policy keeps a storage that the schedule may move."""
    rule = {"name": random.choice(schedule.graph.storages).name, "action": "keep"}
    return replace(schedule, policy={**schedule.policy, "rules": [rule]})


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


def _with_op(schedule: Schedule, op: Op) -> Schedule:
    ops = list(schedule.graph.ops)
    ops[op.id] = op
    return replace(schedule, graph=replace(schedule.graph, ops=tuple(ops)))


def read_another_version(random: Random, schedule: Schedule) -> Schedule:
    """An op reads an original where it read a copy, or a copy where it read the original."""
    graph = schedule.graph
    pairs = [(s.id, s.recompute_of) for s in graph.storages if s.recompute_of is not None]
    swaps = [(op, here, there) for op in graph.ops for pair in pairs for here, there in (pair, pair[::-1])]
    rows = [(op, here, there) for op, here, there in swaps if here in op.reads and there not in op.reads + op.writes]
    if not rows:
        return schedule
    op, here, there = random.choice(rows)
    return _with_op(schedule, replace(op, reads=tuple(there if s == here else s for s in op.reads)))


def recompute_another_op(random: Random, schedule: Schedule) -> Schedule:
    """A recomputed op claims to be another one."""
    rows = [op for op in schedule.graph.ops if op.recompute_of is not None]
    if not rows:
        return schedule
    op = random.choice(rows)
    return _with_op(schedule, replace(op, recompute_of=random.randrange(len(schedule.graph.ops))))


def copy_of_another_storage(random: Random, schedule: Schedule) -> Schedule:
    """A copy claims to hold another storage's value."""
    graph = schedule.graph
    rows = [s for s in graph.storages if s.recompute_of is not None]
    originals = [s.id for s in graph.storages if s.recompute_of is None]
    if not rows:
        return schedule
    storages, row = list(graph.storages), random.choice(rows)
    storages[row.id] = replace(row, recompute_of=random.choice(originals))
    return replace(schedule, graph=replace(graph, storages=tuple(storages)))


def run_again_what_has_side_effects(random: Random, schedule: Schedule) -> Schedule:
    """The original of a recomputed op turns out to be random."""
    rows = [op.recompute_of for op in schedule.graph.ops if op.recompute_of is not None]
    if not rows:
        return schedule
    return _with_op(schedule, replace(schedule.graph.ops[random.choice(rows)], stateful=True))


RECOMPUTE_MUTATIONS: tuple[Callable[[Random, Schedule], Schedule], ...] = (
    read_another_version,
    recompute_another_op,
    copy_of_another_storage,
    run_again_what_has_side_effects,
)

MUTATIONS: tuple[Callable[[Random, Schedule], Schedule], ...] = (
    drop_wait,
    drop_after_op,
    earlier_after_op,
    drop_after_transfer,
    move_address,
    drop_transfer,
    change_home,
    keep_by_rule,
    shorten_stay,
    swap_ops,
)
