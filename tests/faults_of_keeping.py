"""Faults of what the policy asks for: kept storages that leave, rules that say nothing (invariant 7)."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from hyperoffload_core.ir import Storage
from hyperoffload_core.schedule import Schedule
from tests.fault_tools import pick


def with_rule(s: Schedule, rule: Any) -> Schedule:
    """The schedule as if its policy had this rule before all others."""
    return replace(s, policy={**s.policy, "rules": [rule, *s.policy.get("rules", [])]})


def some_rule_for(random: Random, s: Schedule, storage: int, action: str) -> dict[str, str]:
    """A rule that matches the storage, perhaps among others."""
    this, first = s.graph.storages[storage], s.graph.ops[s.graph.accesses[storage][0].op]
    conditions = {
        "name": random.choice([this.name, f"{this.name[:1]}*"]),
        "class": this.tensor_class,
        "min_size": f"{this.bytes}B",
        "max_size": f"{this.bytes}B",
        "phase": first.phase,
    }
    chosen = random.sample(sorted(conditions), random.randint(1, 3))
    return {**{name: conditions[name] for name in chosen}, "action": action}


def move_what_a_rule_keeps(random: Random, s: Schedule) -> Schedule | None:
    t = pick(random, (t for t in s.transfers if s.graph.accesses[t.storage]))
    return None if t is None else with_rule(s, some_rule_for(random, s, t.storage, "keep"))


def keep_the_home_of_what_a_rule_keeps_in_the_pool(random: Random, s: Schedule) -> Schedule | None:
    """A storage that no op uses: nothing else would be wrong with that."""
    unused = Storage(len(s.graph.storages), "unused", random.randint(1, 9), "weight", True)
    graph = replace(s.graph, storages=(*s.graph.storages, unused))
    return with_rule(replace(s, graph=graph, homes=(*s.homes, "pool")), {"name": "unused", "action": "keep"})


def have_a_rule_that_cannot_be_read(random: Random, s: Schedule) -> Schedule | None:
    rules = [{"colour": "red", "action": "keep"}, {"name": 3, "action": "keep"}, {"min_size": "many", "action": "keep"}]
    return with_rule(s, random.choice([*rules, {"name": "*", "action": "hold"}, "keep everything"]))
