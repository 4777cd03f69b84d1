"""Rows of the benchmark matrix as Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any

from bench.cells import AT_BEST, OURS, RECOMPUTING, Row
from hyperoffload_core.sizes import format_bytes

GIB = 2**30


def csv_text(rows: Iterable[Row]) -> str:
    """Every field of every row, one row a line."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [f.name for f in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**asdict(r), "compile_s": f"{r.compile_s:.3f}"} for r in rows)
    return out.getvalue()


def full_table(rows: Iterable[Row]) -> list[str]:
    """One line per row with all its numbers."""
    lines = [
        "| hardware | limit | strategy | meets the limit | step ms | bound ms | above bound | exposed ms | peak GiB "
        "| reserved GiB | out GiB | in GiB | transfers | compiled in s |",
        "|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for r in rows:
        if r.outcome in ("met", "over"):
            met = r.outcome == "met"
            meets = "yes" if met else f"over by {format_bytes(r.over_bytes)}"
            above = f"{r.above_bound:.1%}" if met else ""
            lines.append(
                f"| {r.hardware} | {r.limit} | {r.strategy} | {meets} | {r.step_ns / 1e6:.1f} | {r.bound_ns / 1e6:.1f} "
                f"| {above} | {r.exposed_ns / 1e6:.1f} | {r.peak_bytes / GIB:.3f} "
                f"| {r.reserved_bytes / GIB:.3f} | {r.bytes_out / GIB:.2f} | {r.bytes_in / GIB:.2f} | {r.transfers} "
                f"| {r.compile_s:.2f} |"
            )
        else:
            lines.append(f"| {r.hardware} | {r.limit} | {r.strategy} | {_why_not(r)} |" + " |" * 10)
    return lines


def _why_not(row: Row) -> str:
    if row.outcome == "infeasible":
        return f"no: the smallest feasible limit is {format_bytes(row.smallest_bytes)}"
    return f"{row.outcome}: {row.note.replace('|', '/')}"


def matrix_table(rows: Sequence[Row]) -> list[str]:
    """Rows hardware x limit, a column per strategy with its step over the bound; OURS first, with its compile time."""
    others = [s for s in dict.fromkeys(r.strategy for r in rows) if s not in (OURS, AT_BEST, RECOMPUTING[0])]
    by_cell = {(r.hardware, r.limit, r.strategy): r for r in rows}
    lines = [
        f"| hardware | limit | bound ms | {OURS} | compiled in s | " + " | ".join(others) + " |",
        "|---|---|--:|--:|--:|" + "--:|" * len(others),
    ]
    for hardware, limit in dict.fromkeys((r.hardware, r.limit) for r in rows):
        ours, *found = (by_cell[hardware, limit, s] for s in (OURS, *others))
        bound_ns = max(r.bound_ns for r in (ours, *found))
        bound = f"{bound_ns / 1e6:.1f}" if bound_ns else ""
        seconds = f"{ours.compile_s:.2f}" if ours.bound_ns else ""
        entries = " | ".join(_entry(r, bound_ns) for r in found)
        lines.append(f"| {hardware} | {limit} | {bound} | {_entry(ours, bound_ns)} | {seconds} | {entries} |")
    return lines


def _entry(row: Row, bound_ns: int) -> str:
    if row.outcome == "infeasible":
        return "infeasible"
    if row.outcome in ("refused", "invalid"):
        return row.outcome
    return f"over {_short(row.over_bytes)}" if row.outcome == "over" else f"{row.step_ns / bound_ns:.3f}"


def _short(size: int) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB else f"{max(1, size >> 20)} MiB"


def _with_recomputation(rows: Sequence[Row]) -> list[str]:
    """One sentence on the cells that strategy `recompute` meets, where OURS may recompute as well."""
    ours, theirs = ({r.cell: r for r in rows if r.strategy == s and r.outcome == "met"} for s in RECOMPUTING)
    if not ours or not theirs:
        return []
    faster = sum(cell in ours and ours[cell].step_ns <= r.step_ns for cell, r in theirs.items())
    return [
        f"Where ops may run again, `{OURS}` with option recompute is at least as fast as `recompute` in {faster} of "
        f"the {len(theirs)} cells that one meets."
    ]


def _with_best_effort(rows: Sequence[Row], met: Sequence[Row]) -> list[str]:
    """One sentence on the cells that were compiled with effort best as well."""
    best = {r.cell: r for r in rows if r.strategy == AT_BEST and r.outcome == "met"}
    if not best:
        return []
    nearer = [min(r, best.get(r.cell, r), key=lambda o: o.step_ns) for r in met]
    longest = max(r.compile_s for r in best.values())
    return [
        f"With effort best in the {len(best)} cells further from the bound it is within 3 % in {_within(nearer, 0.03)} "
        f"and within 10 % in {_within(nearer, 0.10)}, and compiles in {longest:.0f} s at most (two at once)."
    ]


def summary(rows: Sequence[Row], listed: int = 8) -> list[str]:
    """How often OURS is at least as fast as every strategy that meets the limit, and how near it is to the bound."""
    ours = [r for r in rows if r.strategy == OURS]
    met = [r for r in ours if r.outcome == "met"]
    infeasible = [r for r in ours if r.outcome == "infeasible"]
    broken = [r for r in ours if r.outcome not in ("met", "infeasible")]
    if not ours:
        return []
    slower = []
    for r in met:
        others = [o for o in rows if o.cell == r.cell and o.strategy not in (OURS, AT_BEST, *RECOMPUTING)]
        rivals = [o for o in others if o.outcome == "met"]
        best = min(rivals, key=lambda o: o.step_ns, default=None)
        if best is not None and best.step_ns < r.step_ns:
            slower.append((r, best))
    lines = [
        f"Of {len(ours)} cells {len(met)} are feasible and met by `{OURS}`"
        + (f", {len(infeasible)} infeasible" if infeasible else "")
        + (f", {len(broken)} FAILED" if broken else "")
        + ".",
        f"In {len(met) - len(slower)} of {len(met)} it is at least as fast as every other strategy that meets the "
        f"limit; its step is within 3 % of the bound in {_within(met, 0.03)} and within 10 % in {_within(met, 0.10)}.",
    ]
    lines += _with_best_effort(rows, met)
    lines += _with_recomputation(rows)
    compiled = sorted(r.compile_s for r in met)
    if compiled:
        lines.append(f"It compiles in {compiled[len(compiled) // 2]:.2f} s (median), {compiled[-1]:.2f} s at most.")
    far = sorted((r for r in met if r.above_bound > 0.03), key=lambda r: -r.above_bound)
    result = ["\n".join(lines)]
    result += _list(
        "Furthest above the bound", far, lambda r: f"{_name(r)}: {r.above_bound:.1%} ({r.step_ns / 1e6:.1f} ms)", listed
    )
    pairs = sorted(slower, key=lambda p: p[1].step_ns / p[0].step_ns)
    result += _list(
        "Beaten", pairs, lambda p: f"{_name(p[0])}: {p[1].strategy} is {p[0].step_ns / p[1].step_ns - 1:.1%} faster",
        listed,
    )  # fmt: skip
    result += _list("Failed", broken, lambda r: f"{_name(r)}: {r.outcome}, {r.note}", listed)
    result += _list("Infeasible", infeasible, lambda r: f"{_name(r)}: {r.note}", listed)
    invalid = [r for r in rows if r.outcome == "invalid" and r.strategy != OURS]
    result += _list("Invalid schedules", invalid, lambda r: f"{_name(r)}, {r.strategy}: {r.note}", listed)
    return result


def _within(rows: Sequence[Row], share: float) -> int:
    return sum(r.above_bound <= share for r in rows)


def _name(row: Row) -> str:
    return f"{row.workload}, {row.hardware}, {row.limit}"


def _list(title: str, items: Sequence[Any], said: Callable[[Any], str], listed: int) -> list[str]:
    if not items:
        return []
    more = [f"- and {len(items) - listed} more"] if len(items) > listed else []
    return ["\n".join([f"{title}:", "", *(f"- {said(i)}" for i in items[:listed]), *more])]
