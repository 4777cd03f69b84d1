"""`hyperoffload runs` and what is done with recorded runs"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.display import console, print_json, print_table, share, size, time
from app.cli.options import DEFAULT_DATABASE, Database, Json, OptionError

Runs = Annotated[list[int], typer.Argument(metavar="RUN...", help="Numbers of runs.")]

runs = typer.Typer(invoke_without_command=True, rich_markup_mode="markdown")


@runs.callback()
def list_command(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--last", min=1, help="Show so many runs, newest first.")] = 30,
    model: Annotated[str | None, typer.Option(help="Only runs of this model.")] = None,
    find: Annotated[
        str,
        typer.Option("--find", metavar="TEXT", help="As in the browser: `'strategy:reactive step<10ms tag:paper'`."),
    ] = "",
    archived: Annotated[bool, typer.Option("--archived", help="Archived runs instead of current ones.")] = False,
    deleted: Annotated[bool, typer.Option("--deleted", help="Deleted runs, which `restore` brings back.")] = False,
    database: Database = DEFAULT_DATABASE,
    json: Json = False,
) -> None:
    """List recorded runs, newest first; tag, note, archive, delete and restore them.

    A run is one profile, *predicted* by the simulator or *measured* by the executor. Its number (or `latest`) names it
    in `compile`, `run`, `simulate`, `compare` and `export`. A recording that was killed is *incomplete*. *Device
    memory* counts the gaps between storages (measured, or reserved by a prediction); the live peak does not.
    """
    if context.invoked_subcommand is not None:
        return
    from db.database import open_database
    from db.queries import RunFilter, count_runs, list_runs

    where = RunFilter(model=model, search=find, deleted=deleted, archived=None if deleted else archived)
    opened = open_database(database, create=False)
    try:
        rows = list_runs(opened, where, limit=limit)
        total = count_runs(opened, where)
    finally:
        opened.close()
    if json:
        print_json([asdict(row) | {"overlap": row.overlap, "device_bytes": row.device_bytes} for row in rows])
        return
    if not rows:
        which = "deleted " if deleted else "archived " if archived else ""
        told = f" of {model}" if model else f" that matches {find!r}" if find else ""
        words = f"{opened.path} holds no {which}run{told}{'' if told or which else ' yet'}"
        console.print(words, markup=False, soft_wrap=True)
        return
    print_table(COLUMNS, [_cells(row) for row in rows])
    if total > len(rows):
        console.print(f"{len(rows)} of {total:,} runs; --last {total} shows all of them", markup=False)


COLUMNS = (
    ("run", "right"),
    ("recorded (UTC)", "left"),
    ("model", "left"),
    ("strategy", "left"),
    ("kind", "left"),
    ("status", "left"),
    ("hardware", "left"),
    ("limit", "right"),
    ("device memory", "right"),
    ("live peak planned", "right"),
    ("step", "right"),
    ("blocking", "right"),
    ("overlap", "right"),
    ("tags", "left"),
    ("label", "left"),
)


def _cells(row: Any) -> list[str]:
    return [
        str(row.id),
        row.created.strftime("%Y-%m-%d %H:%M"),
        row.model,
        row.strategy,
        row.kind_words,
        row.status,
        row.hardware,
        size(row.memory_limit_bytes) if row.strategy != "none" else "-",
        size(row.device_bytes),
        size(row.peak_planned_bytes),
        time(row.step_median_ns),
        time(row.blocking_ns),
        share(row.overlap),
        ", ".join(row.tags),
        row.label,
    ]


@runs.command()
def tag(
    run: Runs,
    add: Annotated[list[str] | None, typer.Option("--add", "-a", metavar="TAG", help="May be given often.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", "-r", metavar="TAG")] = None,
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Add tags to runs, or take them away."""
    from db.curation import tag_runs

    if not add and not remove:
        raise OptionError("name a tag: --add TAG or --remove TAG")
    _change(database, run, "tagged", lambda opened: tag_runs(opened, run, add or (), remove or ()))


@runs.command()
def name(
    run: Annotated[int, typer.Argument(metavar="RUN")],
    text: Annotated[str, typer.Argument(metavar="NAME", help="Empty removes it.")],
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Give a run a name, by which other commands find it too."""
    from db.curation import name_run

    _change(database, [run], "named", lambda opened: name_run(opened, run, text))


@runs.command()
def note(
    run: Runs,
    text: Annotated[str, typer.Option("--text", "-t", metavar="TEXT", help="The note; empty removes it.")],
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Write a note to runs, in place of the one they have."""
    from db.curation import note_runs

    _change(database, run, "noted", lambda opened: note_runs(opened, run, text))


@runs.command()
def archive(
    run: Runs,
    undo: Annotated[bool, typer.Option("--undo", help="Take them out of the archive.")] = False,
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Put runs into the archive: lists leave them out unless asked."""
    from db.curation import archive_runs

    said = "out of the archive" if undo else "archived"
    _change(database, run, said, lambda opened: archive_runs(opened, run, not undo))


@runs.command()
def delete(run: Runs, database: Database = DEFAULT_DATABASE) -> None:
    """Delete runs. `restore` brings them back for 30 days, until they are purged."""
    from db.curation import delete_runs

    _change(database, run, "deleted; `hyperoffload runs restore` undoes it", lambda opened: delete_runs(opened, run))


@runs.command()
def restore(run: Runs, database: Database = DEFAULT_DATABASE) -> None:
    """Bring deleted runs back as they were."""
    from db.curation import restore_runs

    _change(database, run, "restored", lambda opened: restore_runs(opened, run))


@runs.command()
def purge(
    run: Annotated[list[int] | None, typer.Argument(metavar="[RUN...]", help="Numbers of deleted runs.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All deleted runs.")] = False,
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Remove deleted runs for good, with their events, and make the file smaller."""
    from db.curation import deleted_runs, purge_runs
    from db.database import compact, open_database

    if bool(run) == everything:
        raise OptionError("name the runs to remove for good, or say --all")
    opened = open_database(database, create=False)
    try:
        chosen = deleted_runs(opened) if everything else run or []
        purge_runs(opened, chosen)
        compact(opened)
    finally:
        opened.close()
    console.print(f"{_named(chosen)} removed for good" if chosen else "no run is deleted", markup=False)


def _change(path: Path, run_ids: list[int], said: str, change: Callable[[Any], object]) -> None:
    from db.database import open_database

    opened = open_database(path, create=False)
    try:
        change(opened)
    finally:
        opened.close()
    console.print(f"{_named(run_ids)} {said}", markup=False)


def _named(run_ids: list[int]) -> str:
    return f"run{'s' if len(run_ids) > 1 else ''} {', '.join(map(str, run_ids))}"
