"""A comparison as CSV (one tidy table) and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from profiles.compare import Comparison, Placement

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
    """One row per value: table (numbers, ops, storages, transfers), item, profile, quantity, unit, value, difference.

    ``detail`` is an op's primitive, a storage's class or a transfer's direction. A value that does not exist is empty.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for table, item, detail, side, quantity, unit, value, difference in _csv_rows(comparison):
        s = comparison.sides[side]
        # Integers stay integers and floats are written so that they read back equal.
        cells = [
            "" if cell is None else repr(cell) if isinstance(cell, float) else cell for cell in (value, difference)
        ]
        writer.writerow([table, item, detail, s.label, s.kind, s.strategy, s.hardware, quantity, unit, *cells])
    return text.getvalue()


def comparison_json(comparison: Comparison) -> str:
    """The whole comparison as a document with the names of `profiles.compare`."""
    document: dict[str, Any] = {"format": "hyperoffload.comparison", "version": 1, **asdict(comparison)}
    return json.dumps(document, indent=1)


def _csv_rows(c: Comparison) -> Iterator[tuple[str, str, str, int, str, str, _Cell, _Cell]]:
    for number in c.numbers:
        for side, (value, difference) in enumerate(zip(number.values, number.differences, strict=True)):
            yield "numbers", number.name, "", side, number.name, number.unit, value, difference
    for op in c.ops:
        for side, (value, difference) in enumerate(zip(op.durations_ns, op.differences_ns, strict=True)):
            yield "ops", op.name, op.primitive, side, "duration", "ns", value, difference
    for storage in c.storages:
        for side, placement in enumerate(storage.placements):
            for quantity, cell in _placement_cells(placement):
                yield "storages", storage.name, storage.tensor_class, side, quantity, "", cell, None
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
                moved, referred = getattr(move, quantity), getattr(reference, quantity)
                more = None if moved is None or referred is None else moved - referred
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
    return [("home", placement.home), ("stores", placement.stores), ("prefetches", placement.prefetches)]
