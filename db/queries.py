"""Reading runs: rows for lists, windows of events as the profile's own columns, whole profiles."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import Connection, Select, Text, cast, func, select, true

from db.database import Database, DatabaseError
from db.documents import load_schedule
from db.models import (
    LARGEST_ID,
    GraphRow,
    OpEvent,
    Policy,
    PolicyVersion,
    Run,
    RunStep,
    ScheduleRow,
    StorageLifetime,
    TransferEvent,
)
from db.run_filter import DEVICE_BYTES, RunFilter, run_conditions
from hyperoffload_core.recording import OpEvents, Profile, ProfileKind, StepNumbers, StorageLifetimes, TransferEvents


@dataclass(frozen=True)
class RunRow:
    """A run as lists and headers show it. Metrics are None until the first step is recorded.

    ``peak_planned_bytes`` is the schedule's live peak, ``peak_bytes`` the profile's own (highest step): address space
    where it was measured, live bytes where it was predicted; ``device_bytes`` compares across both. ``overlap`` is the
    part of the transfers' union that lies beside compute, None without transfers. Other fields as in `db.models.Run`.
    """

    id: int
    kind: ProfileKind
    status: str
    reason: str
    session: str
    model: str
    source: dict[str, Any]
    graph_hash: str
    graph_name: str
    schedule_hash: str
    policy: str | None
    policy_number: int | None
    policy_version_id: int | None
    strategy: str
    hardware: str
    memory_limit_bytes: int
    link_bandwidth_bytes_per_s: int | None
    paced: bool
    conditions: str
    duration_source: str
    lower_bound_ns: int
    step_count: int
    step_median_ns: int | None
    step_min_ns: int | None
    step_max_ns: int | None
    compute_ns: int | None
    exposed_ns: int | None
    blocking_ns: int | None
    transfer_ns: int | None
    hidden_ns: int | None
    peak_planned_bytes: int
    peak_bytes: int | None
    reserved_bytes: int
    bytes_out: int | None
    bytes_in: int | None
    losses: tuple[float, ...]
    bit_identical: bool | None
    label: str
    tags: tuple[str, ...]
    note: str
    archived: bool
    deleted: datetime | None
    created: datetime
    finished: datetime | None

    @property
    def overlap(self) -> float | None:
        return self.hidden_ns / self.transfer_ns if self.transfer_ns and self.hidden_ns is not None else None

    @property
    def device_bytes(self) -> int | None:
        """Device memory with the gaps between storages: what a measured run needed, what a prediction reserves."""
        if self.kind == "predicted" and self.peak_bytes is not None:
            return self.reserved_bytes
        return self.peak_bytes

    @property
    def title(self) -> str:
        """The label, or what the run is."""
        return self.label or f"{self.model} · {self.strategy} · {self.kind_words}"

    @property
    def graph_mode(self) -> bool:
        """Whether the session ran in MindSpore's graph mode, and not op by op."""
        return bool(self.source.get("graph_mode"))

    @property
    def kind_words(self) -> str:
        """``predicted``, ``measured``, or that it was measured in graph mode."""
        return "measured, MindSpore graph mode" if self.kind == "measured" and self.graph_mode else self.kind


def list_runs(
    database: Database,
    where: RunFilter | None = None,
    sort: str = "created",
    descending: bool = True,
    limit: int | None = None,
    offset: int = 0,
) -> list[RunRow]:
    """Runs that match, sorted by a column of the run table or ``device_bytes``, newest first unless told otherwise.

    Raises `DatabaseError` for a column that runs do not have, `db.run_filter.SearchError`.
    """
    column: Any = DEVICE_BYTES if sort == "device_bytes" else Run.__table__.columns.get(sort)
    if column is None:
        raise DatabaseError(f"runs cannot be sorted by {sort!r}; one of {', '.join(Run.__table__.columns.keys())}")
    order = (
        column.desc().nulls_last() if descending else column.asc().nulls_last(),
        Run.id.desc() if descending else Run.id,
    )
    # Sorting and cutting is done on ids alone: whole rows are wide.
    ids = select(Run.id).where(*run_conditions(where or RunFilter())).order_by(*order)
    chosen = ids.limit(-1 if limit is None else limit).offset(offset)
    with database.read() as connection:
        return [_run_row(row) for row in connection.execute(_run_query().where(Run.id.in_(chosen)).order_by(*order))]


def count_runs(database: Database, where: RunFilter | None = None) -> int:
    """How many runs match. Raises `db.run_filter.SearchError`."""
    with database.read() as connection:
        query = select(func.count()).select_from(Run).where(*run_conditions(where or RunFilter()))
        return connection.execute(query).scalar_one()


def run_choices(database: Database) -> dict[str, list[str]]:
    """What current and archived runs have as model, strategy, hardware, kind and tag, each sorted."""
    columns = {"model": Run.model, "strategy": Run.strategy, "hardware": Run.hardware, "kind": Run.kind}
    tags = func.json_each(Run.tags).table_valued("value", name="each_tag")
    present = Run.deleted.is_(None)
    tagged = select(tags.c.value).select_from(Run).join(tags, true()).where(present, Run.tags != [])
    with database.read() as connection:
        rows = connection.execute(select(*columns.values()).where(present).distinct()).all()
        known = list(connection.execute(tagged.distinct().order_by(tags.c.value)).scalars())
    return {name: sorted({row[i] for row in rows}) for i, name in enumerate(columns)} | {"tag": known}


def runs_stamp(database: Database) -> str:
    """A text that changes with every change a list of runs would show."""
    shown = (
        func.count(),
        func.max(Run.id),
        func.max(Run.heartbeat),
        func.max(Run.finished),
        func.count().filter(Run.archived),
        func.count(Run.deleted),
        func.sum(func.length(cast(Run.tags, Text))),
        func.sum(func.length(Run.note) + func.length(Run.label)),
    )
    with database.read() as connection:
        return " ".join(map(str, connection.execute(select(*shown)).one()))


def get_run(database: Database, run_id: int) -> RunRow:
    """One run. Raises `DatabaseError` when there is none with this id."""
    with database.read() as connection:
        known = abs(run_id) <= LARGEST_ID
        row = connection.execute(_run_query().where(Run.id == run_id)).one_or_none() if known else None
    if row is None:
        raise DatabaseError(f"there is no run {run_id} in {database.path}; `hyperoffload runs` lists them")
    return _run_row(row)


def find_run(database: Database, text: str) -> RunRow:
    """The run a person names: its number, ``latest``, or a label only one run has. Raises `DatabaseError`, for a
    deleted run too."""
    if text.isdecimal():
        run = get_run(database, int(text))
        if run.deleted is not None:
            raise DatabaseError(f"run {run.id} was deleted; `hyperoffload runs restore {run.id}` brings it back")
        return run
    if text == "latest":
        rows = list_runs(database, limit=1)
        if not rows:
            raise DatabaseError(f"{database.path} holds no run yet; `hyperoffload demo` records some")
        return rows[0]
    with database.read() as connection:
        query = _run_query().where(Run.label == text, Run.deleted.is_(None))
        rows = [_run_row(row) for row in connection.execute(query)]
    if len(rows) != 1:
        found = f"{len(rows)} runs have" if rows else "no run has"
        raise DatabaseError(f"{found} the label {text!r}; name a run by its number, a label of its own, or 'latest'")
    return rows[0]


def run_steps(database: Database, run_id: int) -> StepNumbers:
    """Numbers of every recorded step, in step order."""
    with database.read() as connection:
        return _steps(connection, run_id, None)


def ops_window(database: Database, run_id: int, step: int, start_ns: int, end_ns: int) -> OpEvents:
    """Ops of a step that run at some time in ``[start_ns, end_ns)``, by start time."""
    with database.read() as connection:
        longest = _longest(connection, RunStep.longest_op_ns, run_id, step)
        query = _op_query(run_id).where(OpEvent.step == step, *_inside(OpEvent, start_ns, end_ns, longest))
        return OpEvents(*_columns(connection, query))


def transfers_window(database: Database, run_id: int, step: int, start_ns: int, end_ns: int) -> TransferEvents:
    """Transfers of a step that occupy a link at some time in ``[start_ns, end_ns)``, by start time."""
    with database.read() as connection:
        longest = _longest(connection, RunStep.longest_transfer_ns, run_id, step)
        inside = _inside(TransferEvent, start_ns, end_ns, longest)
        query = _transfer_query(run_id).where(TransferEvent.step == step, *inside)
        return TransferEvents(*_columns(connection, query))


def lifetimes_window(database: Database, run_id: int, step: int, start_ns: int, end_ns: int) -> StorageLifetimes:
    """Stays of storages on the device that touch ``[start_ns, end_ns)``, by start time."""
    with database.read() as connection:
        # Weights stay for whole steps, so no useful bound on how far back a stay may begin exists.
        inside = _inside(StorageLifetime, start_ns, end_ns, None)
        query = _lifetime_query(run_id).where(StorageLifetime.step == step, *inside)
        return StorageLifetimes(*_columns(connection, query))


def load_profile(database: Database, run_id: int, step: int | None = None) -> Profile:
    """The whole profile, or one step of it (then numbered 0); rows by step and start time.

    Raises `DatabaseError` for an unknown run or step.
    """
    run = get_run(database, run_id)
    if step is not None and not 0 <= step < run.step_count:
        raise DatabaseError(f"run {run_id} has {run.step_count} recorded steps; there is no step {step}")
    schedule = load_schedule(database, run.schedule_hash)
    queries: list[tuple[Any, Any]] = [
        (_op_query(run_id), OpEvent.step),
        (_transfer_query(run_id), TransferEvent.step),
        (_lifetime_query(run_id), StorageLifetime.step),
    ]
    with database.read() as connection:
        tables = []
        for query, step_column in queries:
            columns = _columns(connection, query if step is None else query.where(step_column == step))
            tables.append(columns if step is None else [np.zeros_like(columns[0]), *columns[1:]])
        steps = _steps(connection, run_id, step)
    losses = run.losses if step is None else run.losses[step : step + 1]
    return Profile(
        kind=run.kind,
        schedule=schedule,
        conditions=run.conditions,
        ops=OpEvents(*tables[0]),
        transfers=TransferEvents(*tables[1]),
        lifetimes=StorageLifetimes(*tables[2]),
        steps=steps,
        losses=losses,
    )


def median_step(database: Database, run_id: int) -> int:
    """Number of the step shown where one step is shown. Raises `DatabaseError` for a run without steps."""
    step_ns = run_steps(database, run_id).step_ns
    if not len(step_ns):
        raise DatabaseError(f"run {run_id} has no recorded step yet")
    return int(np.argsort(step_ns, kind="stable")[(len(step_ns) - 1) // 2])


def _run_query() -> Select[*tuple[Any, ...]]:
    from_run = [c for c in Run.__table__.columns if c.name in RunRow.__dataclass_fields__]
    return (
        select(
            *from_run,
            GraphRow.hash.label("graph_hash"),
            GraphRow.name.label("graph_name"),
            ScheduleRow.hash.label("schedule_hash"),
            ScheduleRow.duration_source,
            ScheduleRow.lower_bound_ns,
            Policy.name.label("policy"),
            PolicyVersion.number.label("policy_number"),
        )
        .join(GraphRow, GraphRow.id == Run.graph_id)
        .join(ScheduleRow, ScheduleRow.id == Run.schedule_id)
        .outerjoin(PolicyVersion, PolicyVersion.id == Run.policy_version_id)
        .outerjoin(Policy, Policy.id == PolicyVersion.policy_id)
    )


def _run_row(row: Any) -> RunRow:
    values = dict(row._mapping)
    return RunRow(**{**values, "losses": tuple(values["losses"]), "tags": tuple(values["tags"])})


def _op_query(run_id: int) -> Select[*tuple[Any, ...]]:
    columns = (OpEvent.step, OpEvent.op, OpEvent.start_ns, OpEvent.end_ns, OpEvent.copy_ns)
    return select(*columns).where(OpEvent.run_id == run_id).order_by(OpEvent.step, OpEvent.start_ns)


def _transfer_query(run_id: int) -> Select[*tuple[Any, ...]]:
    t = TransferEvent
    columns = (t.step, t.transfer, t.storage, t.direction, t.bytes, t.start_ns, t.end_ns)
    return select(*columns).where(t.run_id == run_id).order_by(t.step, t.start_ns)


def _lifetime_query(run_id: int) -> Select[*tuple[Any, ...]]:
    s = StorageLifetime
    columns = (s.step, s.storage, s.offset_bytes, s.bytes, s.start_ns, s.end_ns)
    return select(*columns).where(s.run_id == run_id).order_by(s.step, s.start_ns)


def _inside(model: Any, start_ns: int, end_ns: int, longest_ns: int | None) -> list[Any]:
    conditions = [model.start_ns < end_ns, model.end_ns > start_ns]
    if longest_ns is not None:
        conditions.append(model.start_ns >= start_ns - longest_ns)
    return conditions


def _longest(connection: Connection, column: Any, run_id: int, step: int) -> int:
    query = select(column).where(RunStep.run_id == run_id, RunStep.step == step)
    return connection.execute(query).scalar() or 0


def _steps(connection: Connection, run_id: int, step: int | None) -> StepNumbers:
    columns = [getattr(RunStep, name) for name in StepNumbers.__dataclass_fields__]
    query = select(*columns).where(RunStep.run_id == run_id).order_by(RunStep.step)
    return StepNumbers(*_columns(connection, query if step is None else query.where(RunStep.step == step)))


def _columns(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[Any]:
    """The result as one int64 array per column.

    SQLite joins each column to one text: for a million rows that is three times faster than a tuple for every row.
    """
    rows = query.subquery()
    texts = connection.execute(select(*(func.group_concat(column) for column in rows.columns))).one()
    return [np.fromstring(text or "", dtype=np.int64, sep=",") for text in texts]
