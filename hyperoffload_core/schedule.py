"""The compiled artefact: ops and cache operators in order, predicted times, addresses; and its file format.

The file is "hyperoffload.schedule" version 1 (JSON, or gzipped JSON). Times are integer nanoseconds from the start of
the step, sizes integer bytes. Execution is driven by order and events, never by the times: ops run in ``order``,
transfers of one link in the order of their start times, an op waits for its ``waits``, a transfer for its
``after_ops`` and ``after_transfers``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from hyperoffload_core.errors import UserError
from hyperoffload_core.files import read_json, write_whole
from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph, Op, Storage

FORMAT = "hyperoffload.schedule"
VERSION = 1

TransferKind = Literal["prefetch", "store"]
Home = Literal["device", "pool"]


class ScheduleFileError(UserError):
    """A file that is not a schedule of this version; the message says where it differs."""


@dataclass(frozen=True, slots=True)
class OpTime:
    """When an op runs, and the transfers it waits for."""

    op: int
    start_ns: int
    end_ns: int
    waits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Transfer:
    """One cache operator on a link: a Prefetch (pool to device) or a Store (device to pool).

    A ``partial`` one moves ``bytes`` from ``offset_bytes`` of the storage on; all parts of a move (`Schedule.moves`)
    together move it once.
    """

    id: int
    kind: TransferKind
    storage: int
    bytes: int
    start_ns: int
    end_ns: int
    after_ops: tuple[int, ...] = ()
    after_transfers: tuple[int, ...] = ()
    partial: bool = False
    offset_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Residency:
    """One stay of a storage on the device, half-open in time, at one address."""

    storage: int
    offset: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Metrics:
    """Numbers of one step. exposed: transfer time without compute beside it; blocking: ``step_ns - compute_ns``,
    the time ops (and, at the end, the next step) wait for transfers. ``lower_bound_ns``: no schedule is faster."""

    step_ns: int
    compute_ns: int
    peak_live_bytes: int
    reserved_bytes: int
    bytes_out: int
    bytes_in: int
    exposed_ns: int
    blocking_ns: int
    lower_bound_ns: int


@dataclass(frozen=True)
class Schedule:
    """One step of a graph on a hardware under a limit.

    ``durations_ns[op]`` are the durations the schedule was made with and ``duration_source`` says what they are
    ("measured on ...", "roofline of ..."). ``homes[storage]`` is where a persistent storage starts and ends the step.
    """

    graph: Graph
    durations_ns: tuple[int, ...]
    duration_source: str
    hardware: Hardware
    policy: dict[str, Any]
    strategy: str
    memory_limit_bytes: int
    order: tuple[int, ...]
    op_times: tuple[OpTime, ...]
    transfers: tuple[Transfer, ...]
    residencies: tuple[Residency, ...]
    homes: tuple[Home, ...]
    metrics: Metrics
    notes: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def hash(self) -> str:
        """Content hash (sha256, hex) of the whole document."""
        return hashlib.sha256(json.dumps(to_document(self), sort_keys=True).encode()).hexdigest()

    @cached_property
    def moves(self) -> tuple[tuple[Transfer, ...], ...]:
        """Transfers by the move they belong to, moves and parts in order of start: one whole transfer, or the parts
        that together bring or store a storage once. A move that lacks parts ends with those there are."""
        found: list[list[Transfer]] = []
        open_move: dict[tuple[int, TransferKind], tuple[list[Transfer], int]] = {}
        for t in sorted(self.transfers, key=lambda t: t.start_ns):
            parts, left = open_move.get((t.storage, t.kind), ([], 0))
            if left <= 0 or not t.partial:
                parts, left = [], self.graph.storages[t.storage].bytes
                found.append(parts)
            parts.append(t)
            open_move[t.storage, t.kind] = (parts, left - t.bytes)
        return tuple(tuple(parts) for parts in found)

    def link_transfers(self) -> tuple[tuple[Transfer, ...], ...]:
        """Transfers per link in the order they run: (out, in), or one sequence for a half-duplex link."""
        in_order = sorted(self.transfers, key=lambda t: t.start_ns)
        if self.hardware.duplex == "half":
            return (tuple(in_order),)
        return (
            tuple(t for t in in_order if t.kind == "store"),
            tuple(t for t in in_order if t.kind == "prefetch"),
        )


def to_document(schedule: Schedule) -> dict[str, Any]:
    """The schedule as the JSON document of the file format."""
    graph, hardware, metrics = schedule.graph, schedule.hardware, schedule.metrics
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": {
            "name": graph.name,
            "hash": graph.hash,
            "ops": [
                {
                    "id": o.id,
                    "name": o.name,
                    "primitive": o.primitive,
                    "scope": o.scope,
                    "phase": o.phase,
                    "duration_ns": schedule.durations_ns[o.id],
                    "workspace_bytes": o.workspace_bytes,
                    "reads": list(o.reads),
                    "writes": list(o.writes),
                    "after": list(o.after),
                    "flops": o.flops,
                    **({"stateful": True} if o.stateful else {}),
                    **({"recompute_of": o.recompute_of} if o.recompute_of is not None else {}),
                }
                for o in graph.ops
            ],
            "storages": [
                {
                    "id": s.id,
                    "name": s.name,
                    "bytes": s.bytes,
                    "class": s.tensor_class,
                    "persistent": s.persistent,
                    "home": schedule.homes[s.id],
                    "shape": list(s.shape),
                    "dtype": s.dtype,
                    **({"recompute_of": s.recompute_of} if s.recompute_of is not None else {}),
                }
                for s in graph.storages
            ],
        },
        "hardware": {
            "name": hardware.name,
            "title": hardware.title,
            "device_bytes": hardware.device_bytes,
            "links": {
                "out": {"bytes_per_s": hardware.link_out.bytes_per_s, "latency_ns": hardware.link_out.latency_ns},
                "in": {"bytes_per_s": hardware.link_in.bytes_per_s, "latency_ns": hardware.link_in.latency_ns},
                "duplex": hardware.duplex,
            },
        },
        "policy": schedule.policy,
        "strategy": schedule.strategy,
        "duration_source": schedule.duration_source,
        "memory_limit_bytes": schedule.memory_limit_bytes,
        "order": list(schedule.order),
        "op_times": [
            {"op": t.op, "start_ns": t.start_ns, "end_ns": t.end_ns, "waits": list(t.waits)} for t in schedule.op_times
        ],
        "transfers": [
            {
                "id": t.id,
                "kind": t.kind,
                "storage": t.storage,
                "bytes": t.bytes,
                "start_ns": t.start_ns,
                "end_ns": t.end_ns,
                "after_ops": list(t.after_ops),
                "after_transfers": list(t.after_transfers),
                **({"partial": True, "offset_bytes": t.offset_bytes} if t.partial else {}),
            }
            for t in schedule.transfers
        ],
        "residencies": [
            {"storage": r.storage, "offset": r.offset, "start_ns": r.start_ns, "end_ns": r.end_ns}
            for r in schedule.residencies
        ],
        "metrics": {name: getattr(metrics, name) for name in Metrics.__slots__},
        "notes": list(schedule.notes),
    }


def from_document(document: dict[str, Any]) -> Schedule:
    """The schedule a document describes. Raises `ScheduleFileError` naming the missing or wrong field."""
    if document.get("format") != FORMAT:
        raise ScheduleFileError(f'"format" is {document.get("format")!r}; a schedule file says "{FORMAT}"')
    if document.get("version") != VERSION:
        raise ScheduleFileError(f'"version" is {document.get("version")!r}; this program reads version {VERSION}')
    try:
        return _from_document(document)
    except KeyError as error:
        raise ScheduleFileError(f"the field {error.args[0]!r} is missing") from error
    except (TypeError, AttributeError) as error:
        raise ScheduleFileError(f"a field has the wrong type: {error}") from error


def _from_document(document: dict[str, Any]) -> Schedule:
    graph, links = document["graph"], document["hardware"]["links"]
    ops = tuple(
        Op(
            id=o["id"],
            name=o["name"],
            primitive=o["primitive"],
            scope=o["scope"],
            phase=o["phase"],
            reads=_integers(o["reads"]),
            writes=_integers(o["writes"]),
            after=_integers(o["after"]),
            workspace_bytes=_integer(o["workspace_bytes"]),
            flops=o.get("flops", 0),
            stateful=_boolean(o.get("stateful", False)),
            recompute_of=_recompute_of(o),
        )
        for o in graph["ops"]
    )
    storages = tuple(
        Storage(
            id=s["id"],
            name=s["name"],
            bytes=_integer(s["bytes"]),
            tensor_class=s["class"],
            persistent=s["persistent"],
            shape=tuple(s.get("shape", ())),
            dtype=s.get("dtype", ""),
            recompute_of=_recompute_of(s),
        )
        for s in graph["storages"]
    )
    return Schedule(
        graph=Graph(name=graph["name"], ops=ops, storages=storages),
        durations_ns=_integers([o["duration_ns"] for o in graph["ops"]]),
        duration_source=document.get("duration_source", "unknown"),
        hardware=Hardware(
            name=document["hardware"]["name"],
            title=document["hardware"].get("title", document["hardware"]["name"]),
            device_bytes=_integer(document["hardware"]["device_bytes"]),
            link_out=_link(links["out"]),
            link_in=_link(links["in"]),
            duplex=links["duplex"],
        ),
        policy=document["policy"],
        strategy=document["strategy"],
        memory_limit_bytes=_integer(document["memory_limit_bytes"]),
        order=_integers(document["order"]),
        op_times=tuple(_op_time(t) for t in document["op_times"]),
        transfers=tuple(
            Transfer(
                id=_integer(t["id"]),
                kind=t["kind"],
                storage=_integer(t["storage"]),
                bytes=_integer(t["bytes"]),
                start_ns=_integer(t["start_ns"]),
                end_ns=_integer(t["end_ns"]),
                after_ops=_integers(t["after_ops"]),
                after_transfers=_integers(t["after_transfers"]),
                partial=_boolean(t.get("partial", False)),
                offset_bytes=_integer(t.get("offset_bytes", 0)),
            )
            for t in document["transfers"]
        ),
        residencies=tuple(
            Residency(*_integers([r["storage"], r["offset"], r["start_ns"], r["end_ns"]]))
            for r in document["residencies"]
        ),
        homes=tuple(s["home"] for s in graph["storages"]),
        metrics=Metrics(**{name: _integer(document["metrics"][name]) for name in Metrics.__slots__}),
        notes=tuple(document.get("notes", ())),
    )


def _recompute_of(row: dict[str, Any]) -> int | None:
    return _integer(row["recompute_of"]) if "recompute_of" in row else None


def _op_time(row: dict[str, Any]) -> OpTime:
    op, start_ns, end_ns = _integers([row["op"], row["start_ns"], row["end_ns"]])
    return OpTime(op, start_ns, end_ns, _integers(row["waits"]))


def _link(row: dict[str, Any]) -> Link:
    rate = _integer(row["bytes_per_s"])
    if rate <= 0:
        raise TypeError(f"a link of {rate} bytes per second moves nothing")
    return Link(rate, _integer(row["latency_ns"]))


def _integer(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{str(value)[:40]!r} is no integer")
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError(f"{str(value)[:40]!r} is neither true nor false")
    return value


def _integers(values: Any) -> tuple[int, ...]:
    if not isinstance(values, list) or not set(map(type, values)) <= {int}:
        raise TypeError(f"{str(values)[:40]!r} is no list of integers")
    return tuple(values)


def write_schedule(schedule: Schedule, path: Path | str) -> None:
    """Write ``.json`` or ``.json.gz``; the file appears whole or not at all."""
    path = Path(path)
    data = json.dumps(to_document(schedule), separators=(",", ":")).encode()
    if path.name.endswith(".gz"):
        data = gzip.compress(data, compresslevel=6, mtime=0)
    write_whole(path, data)


def read_schedule(path: Path | str) -> Schedule:
    """Read what `write_schedule` wrote. Raises `ScheduleFileError` with the file's name."""
    try:
        document = read_json(Path(path))
    except (OSError, ValueError, EOFError) as error:
        raise ScheduleFileError(f"{path}: not a schedule file ({getattr(error, 'strerror', None) or error})") from error
    if not isinstance(document, dict):
        raise ScheduleFileError(f"{path}: not a schedule file (the document is no object)")
    try:
        return from_document(document)
    except ScheduleFileError as error:
        raise ScheduleFileError(f"{path}: {error}") from error
