"""The transfers of a step with their verdicts, the costly ones first."""

from __future__ import annotations

from typing import Any

from app.dashboard.views.step import StepView

CAUSES = {
    "dependency": "own storage",
    "memory": "free memory",
    "link": "the link",
    "order": "the order",
}


def transfer_rows(view: StepView) -> list[dict[str, Any]]:
    """One row a transfer, raw ns and bytes: most blocking first, then most exposed, then in time order."""
    graph = view.profile.schedule.graph
    rows = []
    for lane, direction in ((view.lanes.copy_in, "in"), (view.lanes.copy_out, "out")):
        for transfer, start, end in zip(lane.item.tolist(), lane.start_ns.tolist(), lane.end_ns.tolist(), strict=True):
            move, verdict = view.transfers[transfer], view.verdicts[transfer]
            storage = graph.storages[move.storage]
            rows.append(
                {
                    "transfer": transfer,
                    "storage": storage.name,
                    "part": view.parts.get(transfer, ""),
                    "class": storage.tensor_class,
                    "direction": direction,
                    "bytes": move.bytes,
                    "start_ns": start,
                    "end_ns": end,
                    "duration_ns": end - start,
                    "hidden_ns": verdict.hidden_ns,
                    "exposed_ns": verdict.exposed_ns,
                    "blocking_ns": verdict.blocking_ns,
                    "slack_ns": verdict.slack_ns,
                    "cause": CAUSES[verdict.cause],
                }
            )
    return sorted(rows, key=lambda r: (-r["blocking_ns"], -r["exposed_ns"], r["start_ns"]))


def summary(rows: list[dict[str, Any]]) -> str:
    """How many block, in one sentence."""
    if not rows:
        return "This schedule moves nothing."
    blocking = sum(r["blocking_ns"] > 0 for r in rows)
    if not blocking:
        return f"None of the {len(rows)} transfers delays an op."
    return f"{blocking} of {len(rows)} transfers delay an op or the end of the step."


def window_around(span: tuple[int, int], end_ns: int) -> tuple[int, int]:
    """A window around a transfer or op that shows what runs beside it."""
    room = max(3 * (span[1] - span[0]), end_ns // 500, 1)
    return max(0, span[0] - room), min(end_ns, span[1] + room)
