"""What `hyperoffload explain --find`, `--at` and `--between` print: things of a step, who holds memory at a moment, and
the numbers of a stretch of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.cli.display import console, print_table, size, time
from hyperoffload_core.ir import TENSOR_CLASSES
from profiles.alive import Group, group_alive
from profiles.moment import Moment, total
from profiles.searching import FOUND_ORDER, Found, Hits, found_words
from profiles.selection import Selection, selection_facts

_NUMBERS = ("size", "start", "end", "duration", "blocking", "exposed", "hidden", "slack")


def step_document(
    searched: Sequence[tuple[str, Found]], moment: Moment | None, chosen: Selection | None, by: Group, top: int
) -> dict[str, Any]:
    """What was asked for of the step, as plain data."""
    document: dict[str, Any] = {}
    if searched:
        document["find"] = [found_document(query, found, top) for query, found in searched]
    if moment is not None:
        document["at"] = moment_document(moment, by, top)
    if chosen is not None:
        own = {"length_ns": chosen.length_ns, "overlapped_ns": chosen.overlapped_ns, "idle_ns": chosen.idle_ns}
        document["between"] = asdict(chosen) | own
    return document


def found_document(query: str, found: Found, top: int) -> dict[str, Any]:
    """What was found as plain data: counts of all, and the ``top`` heaviest of each kind."""
    return {
        "query": query,
        "text": found_words(found),
        "counts": {kind: hits.count for kind, hits in found.hits.items()},
        "found": [row for kind in FOUND_ORDER if kind in found.hits for row in _rows(found.hits[kind], top)],
    }


def print_found(query: str, found: Found, top: int) -> None:
    console.print(f"{query}: {found_words(found)}", markup=False)
    columns = [
        ("kind", "left"),
        ("id", "right"),
        ("class or op", "left"),
        ("layer", "left"),
        ("bytes", "right"),
        ("start", "right"),
        ("duration", "right"),
        ("blocking", "right"),
        ("name", "left"),
    ]
    for kind in FOUND_ORDER:
        if kind in found.hits:
            rows = [
                [
                    kind,
                    str(row["id"]),
                    row["what"],
                    row["layer"],
                    size(row.get("size_bytes")),
                    time(row.get("start_ns")),
                    time(row.get("duration_ns")),
                    time(row.get("blocking_ns")),
                    row["name"],
                ]
                for row in _rows(found.hits[kind], top)
            ]
            print_table(columns, rows)
    console.print()


def _rows(hits: Hits, top: int) -> list[dict[str, Any]]:
    things = hits.things
    rows = []
    for row in hits.rows[:top].tolist():
        of = things.words["op"][row] if things.kind == "op" else _class(int(things.sets["class"][row]))
        numbers = {
            f"{name}_{'bytes' if name == 'size' else 'ns'}": int(things.numbers[name][row])
            for name in _NUMBERS
            if name in things.numbers and things.numbers[name][row] >= 0
        }
        place = {"kind": things.kind, "id": int(things.ids[row]), "name": things.names[row]}
        rows.append({**place, "what": of, "layer": things.words["layer"][row], **numbers})
    return rows


def _class(bit: int) -> str:
    return TENSOR_CLASSES[bit.bit_length() - 1]


def moment_document(found: Moment, by: Group, top: int) -> dict[str, Any]:
    """The moment as plain data: bytes, groups with their ``top`` largest members, and what could leave."""
    return {
        "time_ns": found.time_ns,
        "needed_bytes": found.needed_bytes,
        "live_bytes": found.live_bytes,
        "reserved_bytes": found.reserved_bytes,
        "memory_limit_bytes": found.limit_bytes,
        "groups": [
            {
                "name": group.name,
                "bytes": group.bytes,
                "share": group.share,
                "count": group.count,
                "largest": [asdict(a) for a in group.members[:top]],
            }
            for group in group_alive(found.alive, by)
        ],
        "could_leave": [asdict(i) for i in sorted(found.leaving, key=lambda i: -i.alive.bytes)[:top]],
    }


def print_moment(found: Moment, by: Group, top: int) -> None:
    from app.dashboard.views.alive import storages_counted

    limit = f", limit {size(found.limit_bytes)}" if found.limit_bytes else ""
    console.print(
        f"at {time(found.time_ns)}: {size(found.live_bytes)} live in {storages_counted(len(found.alive))}, "
        f"{size(found.needed_bytes)} needed, {size(found.reserved_bytes)} reserved{limit}",
        markup=False,
    )
    rows = [
        [group.name, size(group.bytes), f"{group.share:.1%}", f"{group.count:,}", group.members[0].name]
        for group in group_alive(found.alive, by)[:top]
    ]
    print_table([(by, "left"), ("bytes", "right"), ("share", "right"), ("count", "right"), ("largest", "left")], rows)
    parts = (
        ("used now", total(found.used)),
        ("before its first use", total(found.early)),
        ("after its last use", total(found.late)),
        ("idle, could leave and come back", total(i.alive for i in found.leaving)),
        ("idle for too short", total(i.alive for i in found.idle if not i.could_leave)),
    )
    print_table([("of these", "left"), ("bytes", "right")], [[title, size(held)] for title, held in parts])
    console.print()


def print_selection(chosen: Selection) -> None:
    console.print(f"{time(chosen.start_ns)} to {time(chosen.end_ns)}, {time(chosen.length_ns)} in all:", markup=False)
    print_table([("", "left"), ("", "right"), ("", "left")], [list(fact) for fact in selection_facts(chosen)])
    console.print()
