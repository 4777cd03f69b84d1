"""What schedules decide differently, and what the policies behind them ask for."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from profiles.comparison import PolicyDifference, StorageDifference, Tier, TierChange


def tier_changes(storages: Sequence[StorageDifference], baseline: int) -> tuple[TierChange, ...]:
    """How many storages, and bytes, of each class change tier from the baseline to each profile; most bytes first.

    Storages that one of the two does not have change nothing."""
    sums: dict[tuple[int, str, Tier, Tier], list[int]] = {}
    for storage in storages:
        tiers = [None if p is None else p.tier for p in storage.placements]
        for side, after in enumerate(tiers):
            before = tiers[baseline]
            if before is not None and after is not None and after != before:
                sums.setdefault((side, storage.tensor_class, before, after), []).append(storage.bytes)
    rows = [TierChange(*key, count=len(sizes), bytes=sum(sizes)) for key, sizes in sums.items()]
    return tuple(sorted(rows, key=lambda r: (r.side, -r.bytes, r.tensor_class)))


def policy_differences(policies: Sequence[Mapping[str, Any]]) -> tuple[PolicyDifference, ...]:
    """Settings on which the policies differ: limit, strategy, options, rules (one row a rule, by its number)."""
    flat = [_settings(p) for p in policies]
    names = dict.fromkeys(name for settings in flat for name in settings)
    rows = [PolicyDifference(name, tuple(settings.get(name) for settings in flat)) for name in names]
    return tuple(row for row in rows if len(set(row.values)) > 1)


def _settings(policy: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for name, value in policy.items():
        if name == "rules":
            found.update({f"rule {number}": _rule(rule) for number, rule in enumerate(value or (), 1)})
        elif isinstance(value, Mapping):
            found.update({f"{name}.{key}": _text(of) for key, of in value.items()})
        elif value is not None:
            found[name.replace("_", " ")] = _text(value)
    return found


def _rule(rule: Mapping[str, Any]) -> str:
    conditions = ", ".join(f"{k} = {_text(v)}" for k, v in rule.items() if k != "action" and v is not None)
    return f"{conditions}: {rule.get('action')}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
