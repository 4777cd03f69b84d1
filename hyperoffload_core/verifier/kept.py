"""Whether what must stay on the device stays there: storages that rules of the policy keep, and such as cannot move.

The rules are read from the schedule's own policy document and matched here anew: the first one that matches a storage
decides. A kept storage has one stay and no transfer; where it exists when the step starts, and is used or outlives the
step, its home is the device. Ops read it, not copies that another run of its writer made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from hyperoffload_core.ir import Graph, Op, Storage
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.sizes import SizeError, parse_bytes
from hyperoffload_core.verifier.timeline import Timeline
from hyperoffload_core.verifier.violation import ScheduleViolation

_Condition = Callable[[Any, Storage, Op | None], bool]

_CONDITIONS: dict[str, _Condition] = {
    "class": lambda value, storage, _: bool(storage.tensor_class == value),
    "name": lambda value, storage, _: fnmatchcase(storage.name, value),
    "scope": lambda value, _, op: op is not None and any(fnmatchcase(op.scope + end, value) for end in ("", "/")),
    "phase": lambda value, _, op: op is not None and bool(op.phase == value),
    "min_size": lambda value, storage, _: storage.bytes >= parse_bytes(value),
    "max_size": lambda value, storage, _: storage.bytes <= parse_bytes(value),
}
"""What each condition of a rule asks of a storage and of the op that accesses it first."""
_OTHERS = ("action", "prefetch_earlier")


def policy_violations(schedule: Schedule) -> Iterator[ScheduleViolation]:
    """Rules of the policy that cannot be read, and so not be checked."""
    rules = schedule.policy.get("rules", []) if isinstance(schedule.policy, dict) else None
    if not isinstance(rules, list | tuple):
        yield ScheduleViolation("structure", "the rules of its policy are no list of rules")
        return
    for number, rule in enumerate(rules, start=1):
        if not _readable(rule):
            yield ScheduleViolation("structure", f"rule {number} of its policy cannot be read: {rule!r}")


def keep_violations(timeline: Timeline, fixed: Mapping[int, str]) -> Iterator[ScheduleViolation]:
    """Storages that leave the device, or are not there, although they must be. ``fixed``: the reasons of those that
    cannot move, by their place among the storages without copies."""
    graph, homes = timeline.schedule.graph, timeline.schedule.homes
    kept = _kept(timeline.schedule) | {
        s.id: f"it cannot move: {fixed[place]}" for place, s in enumerate(_originals(graph)) if place in fixed
    }
    for storage, why in kept.items():
        name, stays, moves = graph.storages[storage].name, timeline.stays[storage], timeline.moves[storage]
        used, lasts = bool(graph.accesses[storage]), graph.lives_to_end(storage)
        there = graph.exists_at_start(storage) and (used or lasts)
        text, at = "", 0
        if moves:
            text, at = f"has a {moves[0].kind}", moves[0].start_ns
        elif len(stays) > 1:
            text, at = "leaves the device and comes back", stays[0].end_ns
        elif there and homes[storage] != "device":
            text = "has its home in the pool"
        elif there and not (stays and stays[0].at_step_start and (not lasts or stays[0].to_step_end)):
            text = "is not on the device from the start of the step on"
        if text:
            yield ScheduleViolation("keep", f"{name!r} {text}, although {why}", None, storage, at)
    copies = {s.id: s.recompute_of for s in graph.storages if s.recompute_of in kept}
    for op in graph.ops if copies else ():
        for storage in op.reads:
            if op.recompute_of is None and storage in copies:
                of = copies[storage]
                text = f"op {op.name!r} reads a copy of {graph.storages[of].name!r}, although {kept[of]}"
                yield ScheduleViolation("keep", text, op.id, of, timeline.op_start[op.id])


def _originals(graph: Graph) -> list[Storage]:
    return [s for s in graph.storages if s.recompute_of is None]


def _kept(schedule: Schedule) -> dict[int, str]:
    """Storages that a rule keeps, with the sentence that says which."""
    graph, rules = schedule.graph, schedule.policy.get("rules", [])
    if all(rule["action"] != "keep" for rule in rules):
        return {}
    first: dict[int, Op] = {}
    for op in graph.ops:
        if op.recompute_of is None:
            for number in (*op.reads, *op.writes):
                first.setdefault(number, op)
    kept: dict[int, str] = {}
    for storage in _originals(graph):
        matching = (n for n, rule in enumerate(rules, start=1) if _matches(rule, storage, first.get(storage.id)))
        deciding = next(matching, None)
        if deciding is not None and rules[deciding - 1]["action"] == "keep":
            kept[storage.id] = f"rule {deciding} of the policy keeps it"
    return kept


def _readable(rule: Any) -> bool:
    if not isinstance(rule, Mapping) or rule.get("action") not in ("keep", "offload", "auto"):
        return False
    conditions = {k: v for k, v in rule.items() if k not in _OTHERS and v is not None}
    if not all(k in (*_CONDITIONS, "tensor_class") and isinstance(v, str) for k, v in conditions.items()):
        return False
    try:
        return all(parse_bytes(v) > 0 for k, v in conditions.items() if k.endswith("_size"))
    except SizeError:
        return False


def _matches(rule: Mapping[str, Any], storage: Storage, first: Op | None) -> bool:
    """Whether every condition of a rule holds. Raises what a rule that is none brings about."""
    conditions = {("class" if key == "tensor_class" else key): value for key, value in rule.items()}
    asked = [(_CONDITIONS[key], value) for key, value in conditions.items() if key not in _OTHERS and value is not None]
    return all(condition(value, storage, first) for condition, value in asked)
