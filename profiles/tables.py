"""A comparison as CSV (one tidy table) and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from profiles.comparison import Comparison, Placement, Residency
from profiles.plain import csv_table, csv_text, visible

CSV_COLUMNS = (
    "table",
    "item",
    "detail",
    "profile",
    "kind",
    "strategy",
    "hardware",
    "quantity",
    "unit",
    "value",
    "difference_to_baseline",
)
_Cell = str | int | float | None


def comparison_csv(comparison: Comparison) -> str:
    """One row per value: table (numbers, ops, storages, transfers, policies), item, profile, quantity, unit, value,
    difference.

    ``detail`` is an op's primitive, a storage's class or a transfer's direction. A value that does not exist is empty.
    Text that a spreadsheet would take for a formula begins with an apostrophe. What names a profile stands in every
    row, so a long one is cut; names of ops and storages are whole.
    """

    def rows() -> Iterator[list[str]]:
        for table, item, detail, side, quantity, unit, value, difference in _csv_rows(comparison):
            s = comparison.sides[side]
            own = (csv_text(visible(name)) for name in (s.label, s.kind, s.strategy, s.hardware))
            names = (csv_text(item), csv_text(detail), *own)
            yield [table, *names, quantity, unit, _cell(value), _cell(difference)]

    return csv_table(CSV_COLUMNS, rows())


def _cell(value: _Cell) -> str:
    """Integers stay integers and floats are written so that they read back equal."""
    if value is None:
        return ""
    return csv_text(value) if isinstance(value, str) else repr(value)


def comparison_json(comparison: Comparison) -> str:
    """The whole comparison as a document with the names of `profiles.comparison`."""
    document: dict[str, Any] = {"format": "hyperoffload.comparison", "version": 1, **asdict(comparison)}
    return json.dumps(document, indent=1)


def _csv_rows(c: Comparison) -> Iterator[tuple[str, str, str, int, str, str, _Cell, _Cell]]:
    for number in c.numbers:
        for side, (value, difference) in enumerate(zip(number.values, number.differences, strict=True)):
            yield "numbers", number.name, "", side, number.name, number.unit, value, difference
    for op in c.ops:
        for quantity, values in (("duration", op.durations_ns), ("wait", op.waits_ns)):
            for side, value in enumerate(values):
                more = _minus(value, values[c.baseline])
                yield "ops", op.name, op.primitive, side, quantity, "ns", value, more
    for storage in c.storages:
        for side, (placement, residency) in enumerate(zip(storage.placements, storage.residencies, strict=True)):
            for quantity, cell in (*_placement_cells(placement), *_residency_cells(residency)):
                yield "storages", storage.name, storage.tensor_class, side, quantity, "", cell, None
    for policy in c.policies:
        for side, text in enumerate(policy.values):
            yield "policies", policy.setting, "", side, "setting", "", text, None
    for transfer in c.transfers:
        reference = transfer.moves[c.baseline]
        for side, move in enumerate(transfer.moves):
            for quantity, unit in (
                ("count", ""),
                ("parts", ""),
                ("bytes", "bytes"),
                ("duration_ns", "ns"),
                ("hidden_ns", "ns"),
                ("exposed_ns", "ns"),
                ("blocking_ns", "ns"),
                ("slack_ns", "ns"),
            ):
                moved = getattr(move, quantity)
                more = _minus(moved, getattr(reference, quantity))
                yield "transfers", transfer.storage, transfer.direction, side, quantity, unit, moved, more
            for quantity in ("cause", "remedy"):
                yield (
                    "transfers",
                    transfer.storage,
                    transfer.direction,
                    side,
                    quantity,
                    "",
                    getattr(move, quantity),
                    None,
                )


def _placement_cells(placement: Placement | None) -> list[tuple[str, _Cell]]:
    if placement is None:
        return [("home", None)]
    return [
        ("home", placement.home),
        ("stores", placement.stores),
        ("prefetches", placement.prefetches),
        ("decision", placement.text),
    ]


def _residency_cells(residency: Residency | None) -> list[tuple[str, _Cell]]:
    if residency is None:
        return []
    return [("part of the step on the device", residency.resident), ("share of the peak", residency.peak_share)]


def _minus(value: int | None, reference: int | None) -> int | None:
    return None if value is None or reference is None else value - reference
