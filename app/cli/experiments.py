"""`hyperoffload experiments`"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.display import console, print_table, size, time
from app.cli.options import DEFAULT_DATABASE, Database, OptionError

if TYPE_CHECKING:
    from app.experiments import Block, Cell, Section

_CELL_COLUMNS = [("workload", "left"), ("hardware", "left"), ("limit", "right"), ("strategy", "left")]
_CELL_COLUMNS += [("", "left"), ("step", "right"), ("above bound", "right"), ("exposed", "right"), ("peak", "right")]
_CELL_COLUMNS += [("out", "right"), ("in", "right"), ("note", "left")]
_RUN_COLUMNS = [("graph", "left"), ("model", "left"), ("run", "right"), ("strategy", "left"), ("kind", "left")]
_RUN_COLUMNS += [("limit", "right"), ("device memory", "right"), ("step", "right"), ("lower bound", "right")]
_RUN_COLUMNS += [("above bound", "right"), ("exposed", "right"), ("blocking", "right")]


def experiments(
    name: Annotated[str | None, typer.Argument(help="Show this one; all are listed if absent.")] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", metavar="NAME", help="Of `limits`, only this workload.")
    ] = None,
    hardware: Annotated[
        str | None, typer.Option("--hardware", metavar="NAME", help="Of `limits`, only this hardware.")
    ] = None,
    graph: Annotated[str | None, typer.Option("--graph", metavar="NAME", help="Of `runs`, only this graph.")] = None,
    csv: Annotated[
        bool, typer.Option("--csv", help="Print the tables as comma-separated values; times in ns, sizes in bytes.")
    ] = False,
    database: Database = DEFAULT_DATABASE,
) -> None:
    """List what was tried, or show one experiment: the page Experiments as text and CSV.

    `runs` are the recorded runs of one graph that differ in strategy or limit, `limits` is every strategy under every
    limit as this project measured them; the others are the sections of docs/benchmarks.md with their tables as they
    are written there. A program installed without its repository has only `runs`.

    Example: `hyperoffload experiments limits --workload demo --hardware gh200`
    """
    from app.dashboard.views.experiments_address import MATRIX, RUNS
    from app.experiments import read_cells, read_sections

    sections, cells = read_sections(), read_cells()
    titles = {RUNS: "Your runs of one graph", **({MATRIX: "Strategies under limits"} if cells else {})}
    titles |= {section.name: section.title for section in sections}
    if name is not None and name not in titles:
        raise OptionError(f"no experiment is called {name!r}; they are {', '.join(titles)}")
    if (workload or hardware) and name != MATRIX:
        raise OptionError(f"--workload and --hardware choose from `experiments {MATRIX}`")
    if graph and name != RUNS:
        raise OptionError(f"--graph chooses from `experiments {RUNS}`")
    if name is None:
        _out(csv, ["name", "title"], titles.items(), [("name", "left"), ("what", "left")], titles.items())
    elif name == MATRIX:
        _limits(cells, {"workload": workload, "hardware": hardware}, csv)
    elif name == RUNS:
        _runs(database, graph, csv)
    else:
        _section(next(section for section in sections if section.name == name), csv)


def _limits(cells: Sequence[Cell], asked: dict[str, str | None], csv: bool) -> None:
    from app.dashboard.views.experiments import choices
    from app.experiments import Cell
    from profiles.plain import visible

    known = choices(cells)
    for key, wanted in asked.items():
        if wanted is not None and wanted not in known[key]:
            raise OptionError(f"there is no {key} {wanted!r} among the experiments; {', '.join(known[key])}")
    found = [c for c in cells if all(wanted in (None, getattr(c, key)) for key, wanted in asked.items())]
    rows = [
        [c.workload, c.hardware, c.limit, c.strategy, c.outcome, time(c.step_ns or None), _above(c.step_ns, c.bound_ns),
         *([time(c.exposed_ns), *map(size, (c.peak_bytes, c.bytes_out, c.bytes_in))] if c.step_ns else ["-"] * 4),
         f"over by {size(c.over_bytes)}" if c.outcome == "over" else visible(c.note, 60) if c.outcome != "met" else ""]
        for c in found
    ]  # fmt: skip
    _out(csv, [field.name for field in fields(Cell)], [astuple(c) for c in found], _CELL_COLUMNS, rows)


def _runs(database: Database, graph: str | None, csv: bool) -> None:
    from app.experiments import recorded_sweeps, rows_of_runs
    from db.database import open_database
    from profiles.plain import csv_text, visible

    opened = open_database(database, create=False)
    try:
        sweeps = recorded_sweeps(opened)
    finally:
        opened.close()
    if graph is not None and graph not in [s.name for s in sweeps]:
        there = f"; there are {', '.join(s.name for s in sweeps)}" if sweeps else ""
        raise OptionError(f"no graph with runs to set against each other is called {graph!r}{there}")
    rows = [(s, row) for s in sweeps if graph in (None, s.name) for row in rows_of_runs(s.runs)]
    if not rows and not csv:
        console.print(
            "no graph has runs to set against each other: runs under different limits or strategies appear here",
            soft_wrap=True,
        )
        return
    heads = ["graph", "model", "run", "strategy", "kind", "limit_bytes", "device_bytes", "step_ns", "lower_bound_ns"]
    numbers = ["limit", "used", "step", "bound"]
    _out(
        csv,
        [*heads, "exposed_ns", "blocking_ns"],
        [
            [s.name, csv_text(s.model), r["id"], r["strategy"], r["kind"]]
            + [r[key] for key in (*numbers, "exposed", "blocking")]
            for s, r in rows
        ],
        _RUN_COLUMNS,
        [
            [s.name, visible(s.model, 60), str(r["id"]), r["strategy"], r["kind"], size(r["limit"]), size(r["used"]),
             time(r["step"]), time(r["bound"]), _above(r["step"], r["bound"]), time(r["exposed"]), time(r["blocking"])]
            for s, r in rows
        ],
    )  # fmt: skip


def _section(section: Section, csv: bool) -> None:
    from app.experiments import Table
    from profiles.plain import csv_table

    if csv:
        tables = [block for _, blocks in section.blocks for block in blocks if isinstance(block, Table)]
        if not tables:
            raise OptionError(f"{section.name} has no table")
        sys.stdout.write("\n".join(csv_table(table.heads, table.rows) for table in tables))
        return
    console.print(section.title, style="bold", markup=False, soft_wrap=True)
    if section.origin:
        console.print(section.origin, markup=False, soft_wrap=True)
    for heading, blocks in section.blocks:
        if heading:
            console.print(f"\n{heading}", style="bold", markup=False, soft_wrap=True)
        for block in blocks:
            console.print()
            _print_block(block)


def _print_block(block: Block) -> None:
    from app.experiments import Picture, Table

    if isinstance(block, Table):
        sides = ["right" if right else "left" for right in block.right]
        print_table(list(zip(block.heads, sides, strict=True)), block.rows)
    elif isinstance(block, Picture):
        console.print(f"{block.words}: {block.path}", markup=False, soft_wrap=True)
    else:
        console.print(block.text, markup=False, soft_wrap=True)


def _out(csv: bool, heads: Sequence[str], values: Any, columns: Sequence[tuple[str, str]], cells: Any) -> None:
    """The values as CSV, or the cells as a table."""
    from profiles.plain import csv_table

    if csv:
        sys.stdout.write(csv_table(heads, values))
    else:
        print_table(columns, list(cells))


def _above(step_ns: int | None, bound_ns: int | None) -> str:
    return f"{step_ns / bound_ns - 1:.1%}" if step_ns and bound_ns else "-"
