"""The tables. Times are integer nanoseconds from the start of their step, sizes integer bytes; clock times are UTC.

Written to be read with plain SQL as well: every row a person may ask for (ops, storages, events, metrics) is a row with
named columns; only whole documents (graph, schedule) are gzipped JSON. Event tables are clustered by
``(run_id, step, start_ns, ...)``, so a window of one step is one range of the table.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    UniqueConstraint,
    false,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

RUN_STATUSES = ("running", "complete", "incomplete", "failed", "cancelled")
# What SQLite can hold; a number a person typed may be larger.
LARGEST_ID = 2**63 - 1
JOB_STATES = ("queued", "running", "done", "failed", "cancelled")


def utc_now() -> datetime:
    """The time now in UTC without a zone, as SQLite stores it."""
    return datetime.now(UTC).replace(tzinfo=None)


def _one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(v) for v in values)})", name=column)


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012
        int: BigInteger,
        bytes: LargeBinary,
        dict[str, Any]: JSON,
        list[Any]: JSON,
    }


class GraphRow(Base):
    """A captured graph, stored once by content hash; ``document`` is gzipped JSON of the whole graph."""

    __tablename__ = "graph"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    hash: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    op_count: Mapped[int]
    storage_count: Mapped[int]
    persistent_bytes: Mapped[int]
    document: Mapped[bytes]
    created: Mapped[datetime] = mapped_column(default=utc_now)


class GraphOp(Base):
    """One op of a graph; ``op`` is its id inside the graph."""

    __tablename__ = "graph_op"
    __table_args__ = (PrimaryKeyConstraint("graph_id", "op"), {"sqlite_with_rowid": False})
    graph_id: Mapped[int] = mapped_column(ForeignKey("graph.id", ondelete="CASCADE"))
    op: Mapped[int]
    name: Mapped[str]
    primitive: Mapped[str]
    scope: Mapped[str]
    phase: Mapped[str]
    workspace_bytes: Mapped[int]
    flops: Mapped[int]


class GraphStorage(Base):
    """One storage of a graph; ``storage`` is its id inside the graph, ``shape`` reads like ``2x128x512``."""

    __tablename__ = "graph_storage"
    __table_args__ = (PrimaryKeyConstraint("graph_id", "storage"), {"sqlite_with_rowid": False})
    graph_id: Mapped[int] = mapped_column(ForeignKey("graph.id", ondelete="CASCADE"))
    storage: Mapped[int]
    name: Mapped[str]
    bytes: Mapped[int]
    tensor_class: Mapped[str]
    persistent: Mapped[bool]
    shape: Mapped[str]
    dtype: Mapped[str]


class ScheduleRow(Base):
    """A compiled schedule, stored once by content hash; ``document`` is the gzipped schedule file."""

    __tablename__ = "schedule"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    hash: Mapped[str] = mapped_column(unique=True)
    graph_id: Mapped[int] = mapped_column(ForeignKey("graph.id"), index=True)
    strategy: Mapped[str]
    hardware: Mapped[str]
    memory_limit_bytes: Mapped[int]
    duration_source: Mapped[str]
    transfer_count: Mapped[int]
    step_ns: Mapped[int]
    compute_ns: Mapped[int]
    exposed_ns: Mapped[int]
    blocking_ns: Mapped[int]
    lower_bound_ns: Mapped[int]
    peak_live_bytes: Mapped[int]
    reserved_bytes: Mapped[int]
    bytes_out: Mapped[int]
    bytes_in: Mapped[int]
    document: Mapped[bytes]
    created: Mapped[datetime] = mapped_column(default=utc_now)


class Policy(Base):
    """A named policy; what it says is in its versions."""

    __tablename__ = "policy"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created: Mapped[datetime] = mapped_column(default=utc_now)


class PolicyVersion(Base):
    """One saved text of a policy; versions are numbered from 1 and never change."""

    __tablename__ = "policy_version"
    __table_args__ = (UniqueConstraint("policy_id", "number"),)
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    policy_id: Mapped[int] = mapped_column(ForeignKey("policy.id", ondelete="CASCADE"))
    number: Mapped[int]
    toml: Mapped[str]
    json: Mapped[dict[str, Any]]
    note: Mapped[str] = mapped_column(default="")
    created: Mapped[datetime] = mapped_column(default=utc_now)


class Run(Base):
    """One profile, predicted or measured.

    ``session`` ties the runs of one interleaved session together. ``source`` says how to capture the model again.
    The metrics are those of the median step, except the peak, which is the highest of all steps; ``transfer_ns`` and
    ``hidden_ns`` are interval unions. ``process_started`` tells a reused process id from the process that recorded.
    A run with a ``deleted`` time can be restored until it is purged (`db.curation`).
    """

    __tablename__ = "run"
    __table_args__ = (_one_of("kind", ("predicted", "measured")), _one_of("status", RUN_STATUSES))
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    kind: Mapped[str]
    status: Mapped[str] = mapped_column(index=True)
    reason: Mapped[str] = mapped_column(default="")
    session: Mapped[str] = mapped_column(default="", index=True)
    model: Mapped[str]
    source: Mapped[dict[str, Any]] = mapped_column(default=dict)
    graph_id: Mapped[int] = mapped_column(ForeignKey("graph.id"), index=True)
    schedule_id: Mapped[int] = mapped_column(ForeignKey("schedule.id"), index=True)
    policy_version_id: Mapped[int | None] = mapped_column(ForeignKey("policy_version.id"), index=True)
    strategy: Mapped[str]
    hardware: Mapped[str]
    memory_limit_bytes: Mapped[int]
    link_bandwidth_bytes_per_s: Mapped[int | None]
    paced: Mapped[bool]
    conditions: Mapped[str] = mapped_column(default="")
    step_count: Mapped[int] = mapped_column(default=0)
    step_median_ns: Mapped[int | None]
    step_min_ns: Mapped[int | None]
    step_max_ns: Mapped[int | None]
    compute_ns: Mapped[int | None]
    exposed_ns: Mapped[int | None]
    blocking_ns: Mapped[int | None]
    transfer_ns: Mapped[int | None]
    hidden_ns: Mapped[int | None]
    peak_planned_bytes: Mapped[int]
    peak_bytes: Mapped[int | None]
    reserved_bytes: Mapped[int]
    bytes_out: Mapped[int | None]
    bytes_in: Mapped[int | None]
    losses: Mapped[list[Any]] = mapped_column(default=list)
    bit_identical: Mapped[bool | None]
    label: Mapped[str] = mapped_column(default="")
    tags: Mapped[list[Any]] = mapped_column(default=list)
    note: Mapped[str] = mapped_column(default="")
    archived: Mapped[bool] = mapped_column(default=False, server_default=false())
    deleted: Mapped[datetime | None] = mapped_column(index=True)
    created: Mapped[datetime] = mapped_column(default=utc_now, index=True)
    finished: Mapped[datetime | None]
    pid: Mapped[int | None]
    process_started: Mapped[str] = mapped_column(default="")
    heartbeat: Mapped[datetime] = mapped_column(default=utc_now)


class RunStep(Base):
    """Numbers of one step of a run. ``longest_*`` bound how far before a window its first event may start."""

    __tablename__ = "run_step"
    __table_args__ = (PrimaryKeyConstraint("run_id", "step"), {"sqlite_with_rowid": False})
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"))
    step: Mapped[int]
    step_ns: Mapped[int]
    compute_ns: Mapped[int]
    exposed_ns: Mapped[int]
    blocking_ns: Mapped[int]
    transfer_ns: Mapped[int]
    hidden_ns: Mapped[int]
    peak_bytes: Mapped[int]
    bytes_out: Mapped[int]
    bytes_in: Mapped[int]
    longest_op_ns: Mapped[int]
    longest_transfer_ns: Mapped[int]


class OpEvent(Base):
    """One executed op; join ``graph_op`` on the run's graph for its name."""

    __tablename__ = "op_event"
    __table_args__ = (PrimaryKeyConstraint("run_id", "step", "start_ns", "op"), {"sqlite_with_rowid": False})
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"))
    step: Mapped[int]
    start_ns: Mapped[int]
    op: Mapped[int]
    end_ns: Mapped[int]
    copy_ns: Mapped[int]


class TransferEvent(Base):
    """One transfer; ``direction`` 0 is out (Store), 1 is in (Prefetch)."""

    __tablename__ = "transfer_event"
    __table_args__ = (PrimaryKeyConstraint("run_id", "step", "start_ns", "transfer"), {"sqlite_with_rowid": False})
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"))
    step: Mapped[int]
    start_ns: Mapped[int]
    transfer: Mapped[int]
    storage: Mapped[int]
    direction: Mapped[int]
    bytes: Mapped[int]
    end_ns: Mapped[int]


class StorageLifetime(Base):
    """One stay of a storage on the device, half-open in time; a storage may have several in a step."""

    __tablename__ = "storage_lifetime"
    __table_args__ = (
        PrimaryKeyConstraint("run_id", "step", "start_ns", "storage", "end_ns"),
        {"sqlite_with_rowid": False},
    )
    run_id: Mapped[int] = mapped_column(ForeignKey("run.id", ondelete="CASCADE"))
    step: Mapped[int]
    start_ns: Mapped[int]
    storage: Mapped[int]
    end_ns: Mapped[int]
    offset_bytes: Mapped[int]
    bytes: Mapped[int]


class Job(Base):
    """Work asked for by the browser or the command line, done by a process of its own."""

    __tablename__ = "job"
    __table_args__ = (_one_of("state", JOB_STATES),)
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    kind: Mapped[str]
    request: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(default="queued", index=True)
    pid: Mapped[int | None]
    process_started: Mapped[str] = mapped_column(default="")
    heartbeat: Mapped[datetime | None]
    done: Mapped[int] = mapped_column(default=0)
    total: Mapped[int] = mapped_column(default=0)
    message: Mapped[str] = mapped_column(default="")
    cancel_requested: Mapped[bool] = mapped_column(default=False)
    log: Mapped[str] = mapped_column(default="")
    run_ids: Mapped[list[Any]] = mapped_column(default=list)
    created: Mapped[datetime] = mapped_column(default=utc_now)
    started: Mapped[datetime | None]
    finished: Mapped[datetime | None]


class SavedQuery(Base):
    """A query a person saved for the SQL page; ``plot`` says how its result is drawn (`db.saved_queries`)."""

    __tablename__ = "saved_query"
    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    sql: Mapped[str]
    plot: Mapped[dict[str, Any]] = mapped_column(default=dict)
    created: Mapped[datetime] = mapped_column(default=utc_now)
