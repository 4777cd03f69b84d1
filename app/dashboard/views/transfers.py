"""The transfers of a step with their verdicts, the costly ones first."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.dashboard.theme import class_title
from app.dashboard.views.clipping import LONGEST_IN_CELL, clipped
from app.dashboard.views.step import StepView
from hyperoffload_core.ir import TENSOR_CLASSES
from hyperoffload_core.metrics import Column
from profiles.filtering import FIELDS

CAUSES = {
    "dependency": "own storage",
    "memory": "free memory",
    "link": "the link",
    "order": "the order",
}
MOST_ROWS = 1_000


def transfer_rows(view: StepView, found: Column | None = None, most: int = MOST_ROWS) -> list[dict[str, Any]]:
    """One row a transfer, raw ns and bytes: most blocking first, then most exposed, then in time order.

    ``found`` are those to show (rows of ``view.searchable``), None for all; ``most`` of them are.
    """
    things = view.searchable.things["transfer"]
    rows = np.arange(len(things.ids)) if found is None else found
    n = things.numbers
    rows = rows[np.lexsort((n["start"][rows], -n["exposed"][rows], -n["blocking"][rows]))][:most]
    columns = {
        f"{name}_ns": n[name][rows].tolist()
        for name in ("start", "end", "duration", "hidden", "exposed", "blocking", "slack")
    }
    columns |= {"transfer": things.ids[rows].tolist(), "bytes": n["size"][rows].tolist()}
    bits = {field: _places(things.sets[field][rows]) for field in ("class", "way", "cause")}
    return [
        {
            **dict(zip(columns, numbers, strict=True)),
            "storage": clipped(things.names[row], LONGEST_IN_CELL),
            "part": view.parts.get(things.ids[row].item(), ""),
            "class": class_title(TENSOR_CLASSES[of]),
            "direction": FIELDS["way"].choices[way],
            "cause": CAUSES[FIELDS["cause"].choices[cause]],
        }
        for row, of, way, cause, *numbers in zip(
            rows.tolist(), bits["class"], bits["way"], bits["cause"], *columns.values(), strict=True
        )
    ]


def summary(view: StepView, shown: int, found: int | None = None) -> str:
    """How many block, and how many of those found are in the table, in one or two sentences."""
    things = view.searchable.things["transfer"]
    count = len(things.ids)
    if not count:
        return "This schedule moves nothing."
    blocking = int((things.numbers["blocking"] > 0).sum())
    text = f"None of the {count:,} transfers delays an op."
    if blocking:
        text = f"{blocking:,} of {count:,} transfers delay an op or the end of the step."
    if found is not None:
        text += f" {found:,} match the search."
    of = count if found is None else found
    return text + (f" The table has the {shown:,} costliest." if shown < of else "")


def window_around(span: tuple[int, int], end_ns: int) -> tuple[int, int]:
    """A window around a transfer or op that shows what runs beside it."""
    room = max(3 * (span[1] - span[0]), end_ns // 500, 1)
    return max(0, span[0] - room), min(end_ns, span[1] + room)


def _places(bits: Column) -> list[int]:
    """Which bit is set, of numbers with one bit each."""
    return np.log2(np.maximum(bits, 1)).astype(np.int64).tolist()
