"""`hyperoffload runs`"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from app.cli.display import console, print_json, print_table, share, size, time
from app.cli.options import DEFAULT_DATABASE, Database, Json


def runs(
    limit: Annotated[int, typer.Option("--last", min=1, help="Show so many runs, newest first.")] = 30,
    model: Annotated[str | None, typer.Option(help="Only runs of this model.")] = None,
    database: Database = DEFAULT_DATABASE,
    json: Json = False,
) -> None:
    """List recorded runs, newest first.

    A run is one profile, *predicted* by the simulator or *measured* by the executor. Its number (or `latest`) names it
    in `compile`, `run`, `simulate`, `compare` and `export`. A recording that was killed is *incomplete*. *Device
    memory* counts the gaps between storages (measured, or reserved by a prediction); the live peak does not.
    """
    from db.database import open_database
    from db.queries import RunFilter, list_runs

    opened = open_database(database, create=False)
    try:
        rows = list_runs(opened, RunFilter(model=model), limit=limit)
    finally:
        opened.close()
    if json:
        print_json([asdict(row) | {"overlap": row.overlap, "device_bytes": row.device_bytes} for row in rows])
        return
    if not rows:
        console.print(f"{opened.path} holds no run{f' of {model}' if model else ''} yet", markup=False)
        return
    columns = [("run", "right"), ("recorded (UTC)", "left"), ("model", "left"), ("strategy", "left"), ("kind", "left")]
    columns += [("status", "left"), ("hardware", "left"), ("limit", "right"), ("device memory", "right")]
    columns += [("live peak planned", "right"), ("step", "right"), ("blocking", "right")]
    columns += [("overlap", "right"), ("label", "left")]
    print_table(
        columns,
        [
            [
                str(row.id),
                row.created.strftime("%Y-%m-%d %H:%M"),
                row.model,
                row.strategy,
                row.kind,
                row.status,
                row.hardware,
                size(row.memory_limit_bytes) if row.strategy != "none" else "-",
                size(row.device_bytes),
                size(row.peak_planned_bytes),
                time(row.step_median_ns),
                time(row.blocking_ns),
                share(row.overlap),
                row.label,
            ]
            for row in rows
        ],
    )
