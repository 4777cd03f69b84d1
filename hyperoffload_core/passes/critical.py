"""What decides the step in a play at given addresses: how late each row may begin, and who keeps whom waiting."""

from __future__ import annotations

from hyperoffload_core.passes.addressed_play import AddressedStep, Times
from hyperoffload_core.passes.tenants import Layout


def latest_starts_ns(step: AddressedStep, layout: Layout, times: Times) -> list[int]:
    """Per row the latest start with which the step takes no longer, if links run their transfers in the same order."""
    step_ns, count = times.step_ns, step.count
    op_latest, latest = [step_ns] * count, [step_ns] * len(times.end)
    result = [step_ns] * len(step.begin)
    made: list[list[int]] = [[] for _ in range(count + 1)]
    for row, fetch in enumerate(step.fetch_of):
        if fetch < 0 and step.begin[row] >= 0:
            made[step.begin[row]].append(row)
    fetched: list[list[int]] = [[] for _ in range(count + 1)]
    ahead = [-1] * len(times.end)
    for index, position in enumerate(step.consumer):
        if position >= 0:
            fetched[position].append(index)
    for run in times.links:
        for place in range(1, len(run)):
            ahead[run[place]] = run[place - 1]

    def begins(row: int, start: int) -> None:
        result[row] = start
        for earlier in layout.before[row]:
            position, store = step.last_use[earlier], step.store_of[earlier]
            if position >= 0 and op_latest[position] > start:
                op_latest[position] = start
            if store >= 0 and latest[store] > start:
                latest[store] = start

    events = [(times.op_end[p], 1, p) for p in range(count)]
    events += [(times.end[i], 0, i) for i in range(len(times.end))]
    for _, is_op, number in sorted(events, reverse=True):
        if is_op:
            start = op_latest[number] - step.problem.durations_ns[number]
            if number and op_latest[number - 1] > start:
                op_latest[number - 1] = start
            for index in fetched[number]:
                if latest[index] > start:
                    latest[index] = start
            for row in made[number]:
                begins(row, start)
            continue
        start = latest[number] - step.transfer_ns[number]
        if (before := ahead[number]) >= 0 and latest[before] > start:
            latest[before] = start
        if (position := step.after[number]) >= 0 and op_latest[position] > start:
            op_latest[position] = start
        if step.fetch_of[step.row_of[number]] == number:
            if (store := step.valid_after[number]) >= 0 and latest[store] > start:
                latest[store] = start
            begins(step.row_of[number], start)
    return result


def waits_for_addresses(step: AddressedStep, layout: Layout, times: Times) -> list[tuple[int, int]]:
    """(earlier row, later row) wherever the later one waits for the bytes of the earlier one on the way that decides
    the step, from the end of the step on."""
    found: list[tuple[int, int]] = []
    ahead: dict[int, int] = {}
    for run in times.links:
        ahead.update(zip(run[1:], run, strict=False))
    needed: dict[int, list[int]] = {}
    for row, position in enumerate(step.begin):
        needed.setdefault(position, []).append(row)

    def freed(row: int, at_ns: int) -> tuple[bool, int] | None:
        """The event that freed the last bytes of a row's address, if that was then."""
        for earlier in layout.before[row]:
            if times.row_end[earlier] == at_ns:
                found.append((earlier, row))
                store = step.store_of[earlier]
                return (False, store) if store >= 0 and times.end[store] == at_ns else (True, step.last_use[earlier])
        return None

    count = step.count
    now: tuple[bool, int] | None = (True, count - 1)
    if not count or times.op_end[-1] < times.step_ns:
        now = (False, times.end.index(times.step_ns))
    while now is not None:
        is_op, number = now
        at_ns = times.op_start[number] if is_op else times.start[number]
        now = None
        if at_ns == 0:
            break
        if is_op:
            if number and times.op_end[number - 1] == at_ns:
                now = (True, number - 1)
                continue
            rows = needed.get(number, ())
            fetches = [step.fetch_of[row] for row in rows if step.fetch_of[row] >= 0]
            now = next(((False, i) for i in fetches if times.end[i] == at_ns), None)
            for row in rows:
                if now is None and step.fetch_of[row] < 0:
                    now = freed(row, at_ns)
            continue
        before, row = ahead.get(number, -1), step.row_of[number]
        if before >= 0 and times.end[before] == at_ns:
            now = (False, before)
        elif step.fetch_of[row] == number and (way := freed(row, at_ns)) is not None:
            now = way
        elif (store := step.valid_after[number]) >= 0 and times.end[store] == at_ns:
            now = (False, store)
        elif (position := step.after[number]) >= 0 and times.op_end[position] == at_ns:
            now = (True, position)
    return found
