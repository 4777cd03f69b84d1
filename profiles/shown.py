"""A comparison as tables of text, the same for every report: what is said, before it becomes HTML or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hyperoffload_core.ir import TENSOR_CLASSES
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.comparison import TIER_WORDS, Comparison, LabelledProfile, Side, Unit, Value
from profiles.op_groups import op_groups
from profiles.series import memory_curve

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"
MOST_ROWS = 40
Tone = Literal["", "better", "worse"]


@dataclass(frozen=True)
class Cell:
    """``text`` may be a name from a model, which is anything; ``small`` stands below it, and ``tone`` is about it."""

    text: str
    small: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Table:
    """The first ``left`` columns are words, the others numbers. ``total`` rows exist, of which the largest are here;
    without any, ``nothing`` says what that means."""

    title: str
    hint: str
    heads: tuple[str, ...]
    left: int
    rows: tuple[tuple[Cell, ...], ...]
    total: int
    nothing: str


def format_value(value: Value, unit: Unit, signed: bool = False) -> str:
    """A number as people read it; a dash where there is none, ``±0`` for no difference when ``signed``."""
    if value is None:
        return DASH
    if signed and value == 0:
        return "±0"
    size: dict[Unit, Callable[[Any], str]] = {
        "ns": lambda v: format_ns(int(v)),
        "bytes": lambda v: format_bytes(int(v)),
        "fraction": lambda v: f"{v * 100:.1f} %",
        "number": lambda v: f"{v:.6g}",
    }
    text = size[unit](abs(value) if signed else value)
    return f"{'+' if value > 0 else MINUS}{text}" if signed else text


def conditions(side: Side) -> list[tuple[str, str]]:
    """On what the numbers of a profile hold."""
    facts = [
        ("kind", side.kind),
        ("model", side.model),
        ("strategy", side.strategy),
        ("hardware", side.hardware),
        ("memory limit", format_bytes(side.memory_limit_bytes)),
        ("op durations", side.duration_source),
        ("steps", str(side.step_count)),
        ("conditions", side.conditions or "none stated"),
    ]
    return facts if side.run_id is None else [("run", str(side.run_id)), *facts]


def numbers_table(c: Comparison) -> Table:
    rows = []
    for number in c.numbers:
        if set(number.values) != {None}:
            values = zip(number.values, number.differences, strict=True)
            cells = (
                _with_difference(value, difference, number.unit, number.lower_is_better, side == c.baseline)
                for side, (value, difference) in enumerate(values)
            )
            rows.append((Cell(number.name), *cells))
    hint = (
        "Of each profile's median step; memory is the highest of all steps. Beside each value: its difference to the "
        "baseline. Exposed is transfer time with no compute beside it, blocking the time compute waits for transfers. "
        "Peak live adds up what is alive at once; used counts the gaps between storages too (a prediction: what its "
        "plan reserves)."
    )
    return Table("Numbers", hint, ("", *_heads(c)), 1, tuple(rows), len(rows), "")


def peak_table(c: Comparison, profiles: Sequence[LabelledProfile]) -> Table:
    """What is on the device at each profile's peak, by class."""
    held: list[dict[str, int]] = []
    for item in profiles:
        curve = memory_curve(item.profile, item.profile.median_step)
        at = int(curve.total.argmax()) if len(curve.times_ns) else 0
        held.append({name: int(curve.bytes[k, at]) for k, name in enumerate(curve.classes)})
    rows = []
    for name in TENSOR_CLASSES:
        values = [h.get(name, 0) for h in held]
        if any(values):
            cells = (
                _with_difference(v, v - values[c.baseline], "bytes", True, side == c.baseline)
                for side, v in enumerate(values)
            )
            rows.append((Cell(name.replace("_", " ")), *cells))
    return Table("At the peak", "", ("class", *_heads(c)), 1, tuple(rows), len(rows), "Nothing is on the device.")


def decision_tables(c: Comparison) -> tuple[Table, ...]:
    """What the schedules decide differently: by class, the policies behind it, the largest storages."""
    return _tiers_table(c), _policies_table(c), _storages_table(c)


def time_tables(c: Comparison) -> tuple[Table, ...]:
    """Where time went: by phase, by layer, the ops that differ most."""
    return _time_table(c, "phase"), _time_table(c, "layer"), _ops_table(c)


def _tiers_table(c: Comparison) -> Table:
    rows = [
        (
            Cell(c.sides[t.side].name),
            Cell(t.tensor_class.replace("_", " ")),
            Cell(TIER_WORDS[t.before]),
            Cell(TIER_WORDS[t.after]),
            Cell(str(t.count)),
            Cell(format_bytes(t.bytes)),
        )
        for t in c.tier_changes
    ]
    base = c.sides[c.baseline].name
    heads = ("profile", "class", f"in {base}", "here", "storages", "size")
    nothing = "No storage is in another tier than in the baseline."
    return _capped("Storages that change tier", "", heads, 4, rows, nothing)


def _policies_table(c: Comparison) -> Table:
    rows = [(Cell(p.setting), *(Cell(DASH if v is None else v) for v in p.values)) for p in c.policies]
    heads = ("setting", *_heads(c))
    return _capped("Policies", "", heads, len(heads), rows, "The policies ask for the same.")


def _storages_table(c: Comparison) -> Table:
    rows = []
    for s in c.decisions:
        cells = [
            Cell(DASH if p is None else p.text, "" if r is None else f"on the device {r.resident:.0%} of the step")
            for p, r in zip(s.placements, s.residencies, strict=True)
        ]
        size = Cell(format_bytes(s.bytes))
        rows.append((Cell(s.name), Cell(s.tensor_class.replace("_", " ")), *cells, size))
    heads = ("storage", "class", *_heads(c), "size")
    nothing = "Every storage is treated the same in all profiles."
    return _capped("Storages treated differently", "", heads, len(heads) - 1, rows, nothing)


def transfers_table(c: Comparison) -> Table:
    rows = []
    for t in c.transfers:
        cells = []
        for m in t.moves:
            text = f"{m.count} \N{MULTIPLICATION SIGN} {format_bytes(m.bytes // m.count)}" if m.count else DASH
            text += f" in {m.parts} parts" if m.parts > m.count else ""
            blocks = f"blocks {format_ns(m.blocking_ns)}" if m.blocking_ns else ""
            cells.append(Cell(text, blocks, "worse" if blocks else ""))
        rows.append((Cell(t.storage), Cell(t.direction), *cells))
    heads = ("storage", "copy", *_heads(c))
    return _capped("Transfers that differ", "", heads, 2, rows, "The same storages move alike in all profiles.")


def _time_table(c: Comparison, by: Literal["layer", "phase"]) -> Table:
    """Where time went, added up."""
    rows = [
        (
            Cell(group.name),
            *(
                _with_difference(took + waited, difference, "ns", True, side == c.baseline)
                for side, (took, waited, difference) in enumerate(
                    zip(group.durations_ns, group.waits_ns, group.differences_ns, strict=True)
                )
            ),
        )
        for group in op_groups(c, by)
    ]
    hint = "Time of ops and of their waits for transfers; op durations are medians over all recorded steps."
    return _capped(f"Where time went, by {by}", hint, (by, *_heads(c)), 1, rows, "There are no ops.")


def _ops_table(c: Comparison) -> Table:
    rows = []
    for op in c.ops:
        if not op.largest_ns and None not in op.durations_ns:
            continue
        cells = []
        for side, (took, waited) in enumerate(zip(op.durations_ns, op.waits_ns, strict=True)):
            both = None if took is None or waited is None else took + waited
            cells.append(_with_difference(both, op.differences_ns[side], "ns", True, side == c.baseline))
        rows.append((Cell(op.name), Cell(op.primitive), *cells))
    heads = ("op", "primitive", *_heads(c))
    hint = "Aligned by what an op is, never by time; an op's time is its duration and its wait for transfers."
    nothing = "Every op takes the same time in all profiles."
    return _capped("Ops with the largest differences", hint, heads, 2, rows, nothing)


def _heads(c: Comparison) -> Iterable[str]:
    return (side.name for side in c.sides)


def _capped(
    title: str, hint: str, heads: tuple[str, ...], left: int, rows: Sequence[tuple[Cell, ...]], nothing: str
) -> Table:
    return Table(title, hint, heads, left, tuple(rows[:MOST_ROWS]), len(rows), nothing)


def _with_difference(value: Value, difference: Value, unit: Unit, lower_is_better: bool | None, is_base: bool) -> Cell:
    text = format_value(value, unit)
    if is_base or not difference:
        return Cell(text)
    tone: Tone = ""
    if lower_is_better is not None:
        tone = "better" if (difference < 0) == lower_is_better else "worse"
    return Cell(text, format_value(difference, unit, signed=True), tone)
