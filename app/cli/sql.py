"""`hyperoffload sql`"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from app.cli.display import console, errors, print_table
from app.cli.options import DEFAULT_DATABASE, Database, OptionError


def sql(
    query: Annotated[
        str | None, typer.Argument(metavar="[SELECT]", help="One reading statement, or `-` for standard input.")
    ] = None,
    saved: Annotated[str | None, typer.Option("--saved", metavar="NAME", help="Run a saved query.")] = None,
    run: Annotated[
        str, typer.Option("--run", "-r", metavar="RUN", help="What `:run` stands for; the newest run unless given.")
    ] = "",
    save: Annotated[str | None, typer.Option("--save", metavar="NAME", help="Save the query under a name.")] = None,
    delete: Annotated[str | None, typer.Option("--delete", metavar="NAME", help="Delete a query you saved.")] = None,
    names: Annotated[bool, typer.Option("--list", help="List the saved queries.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="What the tables and their columns mean.")] = False,
    limit: Annotated[int, typer.Option("--rows", min=1, max=1_000_000, help="Print so many rows at most.")] = 1000,
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values, all rows.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document, all rows.")] = False,
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Ask the database in SQL. It is opened for reading; nothing a query says can change it.

    Example: `hyperoffload sql 'SELECT strategy, min(step_median_ns) FROM run GROUP BY strategy'`, or
    `hyperoffload sql --saved 'Slowest ops of a run' --run 3`.
    """
    from app.querying import MOST_ROWS_IN_FILE, answer_csv, answer_json, ask, cell_text
    from db.database import open_database
    from db.saved_queries import find_query, save_query

    if schema:
        _print_schema()
        return
    if names:
        _print_names(database)
        return
    if delete is not None:
        if query is not None or saved is not None or save is not None:
            raise OptionError("--delete goes without a query, --saved and --save")
        _delete(database, delete)
        return
    if (query is None) == (saved is None):
        raise OptionError("write a query, or name a saved one with --saved; `hyperoffload sql --list` lists them")
    if csv and json:
        raise OptionError("--csv and --json do not go together")
    opened = open_database(database, create=False)
    try:
        text = sys.stdin.read() if query == "-" else query if query is not None else find_query(opened, saved or "").sql
        answer = ask(opened, text, run, MOST_ROWS_IN_FILE if csv or json else limit)
        if save is not None:
            save_query(opened, save, text)
    finally:
        opened.close()
    if csv:
        sys.stdout.write(answer_csv(answer))
    elif json:
        sys.stdout.write(answer_json(answer) + "\n")
    else:
        numeric = [
            all(isinstance(row[i], (int, float, type(None))) for row in answer.rows) for i in range(len(answer.columns))
        ]
        columns = [(name, "right" if right else "left") for name, right in zip(answer.columns, numeric, strict=True)]
        print_table(columns, [[cell_text(value) for value in row] for row in answer.rows])
    if answer.cut:
        errors.print(answer.cut, markup=False)


def _print_names(database: Database) -> None:
    from db.database import open_database
    from db.saved_queries import list_queries

    opened = open_database(database, create=False)
    try:
        rows = [
            [q.name, "built in" if q.built_in else "yours", " ".join(q.sql.split())[:90]] for q in list_queries(opened)
        ]
    finally:
        opened.close()
    print_table([("name", "left"), ("", "left"), ("begins", "left")], rows)


def _delete(database: Database, name: str) -> None:
    from db.database import open_database
    from db.saved_queries import delete_query

    opened = open_database(database, create=False)
    try:
        delete_query(opened, name)
    finally:
        opened.close()
    console.print(f"deleted the saved query {name!r}", markup=False, soft_wrap=True)


def _print_schema() -> None:
    from db.meanings import COLUMNS, TABLES

    for table, meaning in TABLES.items():
        console.print(f"{table}: {meaning}", style="bold", markup=False, soft_wrap=True)
        print_table([("", "left"), ("", "left")], [[f"  {name}", text] for name, text in COLUMNS[table].items()])
