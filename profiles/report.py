"""The comparison as one HTML file that needs nothing else: no network, no server, light and dark.

plotly.js of the installed plotly is packed into the file and unpacked by the browser, which keeps the file near 2 MB.
Tables are plain HTML, so they are there without JavaScript too.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from html import escape
from importlib import resources
from typing import Any

from hyperoffload_core.ir import TENSOR_CLASSES
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.colours import RUN_COLOURS
from profiles.compare import Comparison, LabelledProfile, Number, Side, Unit, Value
from profiles.figures import gantt_figure, memory_figure
from profiles.series import memory_curve

MINUS = "\N{MINUS SIGN}"
_ROWS = 40


def report_html(comparison: Comparison, profiles: Sequence[LabelledProfile]) -> str:
    """The whole page; ``profiles`` are those the comparison was made of, in the same order."""
    figures = {"memory": memory_figure(profiles), "gantt": gantt_figure(profiles)}
    title = " and ".join(dict.fromkeys(side.model for side in comparison.sides))
    parts = {
        "title": escape(f"{title}: {len(comparison.sides)} profiles compared"),
        "verdict": escape(comparison.verdict),
        "sides": "".join(_side(index, side, comparison.baseline) for index, side in enumerate(comparison.sides)),
        "numbers": _numbers(comparison),
        "peak": _peak_table(comparison, profiles),
        "storages": _storages(comparison),
        "transfers": _transfers(comparison),
        "ops": _ops(comparison),
        "style": _text("report.css"),
        "script": _text("report.js"),
        # A closing tag inside the data would end the element it stands in.
        "figures": json.dumps(figures, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c"),
        "plotly": _packed_plotly(),
    }
    page = _text("report.html")
    pieces = page.split("{{")
    return pieces[0] + "".join(parts[name] + rest for name, _, rest in (p.partition("}}") for p in pieces[1:]))


def format_value(value: Value, unit: Unit, signed: bool = False) -> str:
    """A number as people read it; a dash where there is none, ``±0`` for no difference when ``signed``."""
    if value is None:
        return "\N{EN DASH}"
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


def _text(name: str) -> str:
    return resources.files("profiles").joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _packed_plotly() -> str:
    script = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(script, mtime=0)).decode()


def _side(index: int, side: Side, baseline: int) -> str:
    facts = [
        ("strategy", side.strategy),
        ("hardware", side.hardware),
        ("memory limit", format_bytes(side.memory_limit_bytes)),
        ("op durations", side.duration_source),
        ("steps", str(side.step_count)),
        ("conditions", side.conditions or "none stated"),
    ]
    if side.run_id is not None:
        facts.insert(0, ("run", str(side.run_id)))
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    mark = '<span class="tag">baseline</span>' if index == baseline else ""
    colour = RUN_COLOURS[index % len(RUN_COLOURS)]
    return (
        f'<article class="side" style="--run: {colour}"><h3>{escape(side.label)}</h3>'
        f'<span class="tag {side.kind}">{side.kind}</span>{mark}<dl>{rows}</dl></article>'
    )


def _table(head: Iterable[str], rows: Iterable[str], left: int = 1) -> str:
    cells = "".join(f"<th{' class=text' if i < left else ''}>{escape(text)}</th>" for i, text in enumerate(head))
    return f'<div class="scroll"><table><thead><tr>{cells}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _heads(comparison: Comparison) -> list[str]:
    return [side.name for side in comparison.sides]


def _with_difference(value: Value, difference: Value, unit: Unit, lower_is_better: bool | None, is_base: bool) -> str:
    text = escape(format_value(value, unit))
    if is_base or not difference:
        return f"<td>{text}</td>"
    tone = ""
    if lower_is_better is not None:
        tone = " better" if (difference < 0) == lower_is_better else " worse"
    return (
        f'<td>{text}<small class="difference{tone}">{escape(format_value(difference, unit, signed=True))}</small></td>'
    )


def _numbers(comparison: Comparison) -> str:
    def row(number: Number) -> str:
        cells = "".join(
            _with_difference(value, difference, number.unit, number.lower_is_better, side == comparison.baseline)
            for side, (value, difference) in enumerate(zip(number.values, number.differences, strict=True))
        )
        return f'<tr><th scope="row" class=text>{escape(number.name)}</th>{cells}</tr>'

    return _table(
        ["", *_heads(comparison)], (row(number) for number in comparison.numbers if set(number.values) != {None})
    )


def _peak_table(comparison: Comparison, profiles: Sequence[LabelledProfile]) -> str:
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
            cells = "".join(
                _with_difference(v, v - values[comparison.baseline], "bytes", True, side == comparison.baseline)
                for side, v in enumerate(values)
            )
            rows.append(f"<tr><th scope=row class=text>{escape(name.replace('_', ' '))}</th>{cells}</tr>")
    return _table(["at the peak", *_heads(comparison)], rows)


def _storages(comparison: Comparison) -> str:
    if not comparison.storages:
        return "<p class=none>Every storage is treated the same in all profiles.</p>"
    rows = []
    for storage in comparison.storages[:_ROWS]:
        cells = "".join(f"<td class=text>{escape(p.text) if p else '&ndash;'}</td>" for p in storage.placements)
        rows.append(
            f"<tr><td class='text name'>{escape(storage.name)}</td><td class=text>{escape(storage.tensor_class)}</td>"
            f"{cells}<td>{format_bytes(storage.bytes)}</td></tr>"
        )
    return _table(["storage", "class", *_heads(comparison), "size"], rows, left=2 + len(comparison.sides)) + _more(
        len(comparison.storages)
    )


def _transfers(comparison: Comparison) -> str:
    if not comparison.transfers:
        return "<p class=none>The same storages move alike in all profiles.</p>"
    rows = []
    for transfer in comparison.transfers[:_ROWS]:
        cells = ""
        for move in transfer.moves:
            blocking = f'<small class="difference worse">blocks {format_ns(move.blocking_ns)}</small>'
            text = f"{move.count} &times; {format_bytes(move.bytes // move.count)}" if move.count else "&ndash;"
            if move.parts > move.count:
                text += f"<small>in {move.parts} parts</small>"
            cells += f"<td>{text}{blocking if move.blocking_ns else ''}</td>"
        name = f"<td class='text name'>{escape(transfer.storage)}</td>"
        rows.append(f"<tr>{name}<td class=text>{transfer.direction}</td>{cells}</tr>")
    return _table(["storage", "copy", *_heads(comparison)], rows, left=2) + _more(len(comparison.transfers))


def _ops(comparison: Comparison) -> str:
    differing = [op for op in comparison.ops if op.largest_ns or None in op.durations_ns]
    if not differing:
        return "<p class=none>Every op takes the same time in all profiles.</p>"
    rows = []
    for op in differing[:_ROWS]:
        cells = "".join(
            _with_difference(value, difference, "ns", True, side == comparison.baseline)
            for side, (value, difference) in enumerate(zip(op.durations_ns, op.differences_ns, strict=True))
        )
        rows.append(
            f"<tr><td class='text name'>{escape(op.name)}</td><td class=text>{escape(op.primitive)}</td>{cells}</tr>"
        )
    return _table(["op", "primitive", *_heads(comparison)], rows, left=2) + _more(len(differing))


def _more(count: int) -> str:
    if count <= _ROWS:
        return ""
    return f"<p class=none>The {_ROWS} largest of {count}; the CSV export has them all.</p>"
