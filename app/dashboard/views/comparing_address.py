"""What the compare page shows, as the query of its address says (which assets/compare.js writes)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from profiles.op_groups import OP_GROUPINGS, OpGrouping

Tab = Literal["decisions", "time", "storages", "transfers"]
Axis = Literal["time", "op"]
TABS: tuple[Tab, ...] = get_args(Tab)
AXES: tuple[Axis, ...] = get_args(Axis)


@dataclass(frozen=True)
class CompareAsked:
    """The runs in the order in which they are drawn, the one that differences refer to (None: the first), and what is
    shown of them: the table, the axis of the chart, how the table of time adds ops up."""

    runs: tuple[int, ...] = ()
    baseline: int | None = None
    tab: Tab = "decisions"
    axis: Axis = "time"
    by: OpGrouping = "layer"

    @property
    def place(self) -> int:
        """Which of the runs is the baseline."""
        return self.runs.index(self.baseline) if self.baseline in self.runs else 0


def asked_for(runs: Sequence[int], baseline: object, tab: object, axis: object, by: object) -> CompareAsked:
    """What an address or the controls of the page ask for; what is unknown in it is left to the page."""
    text = str(baseline)
    first = int(text) if text.isdecimal() and len(text) < 19 and int(text) in runs else None
    return CompareAsked(
        tuple(runs),
        first if first is not None else next(iter(runs), None),
        next((t for t in TABS if t == tab), "decisions"),
        next((a for a in AXES if a == axis), "time"),
        next((g for g in OP_GROUPINGS if g == by), "layer"),
    )
