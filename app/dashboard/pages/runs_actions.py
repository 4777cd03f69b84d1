"""What can be done with ticked runs: compare, tag and note, archive, delete and undo it, remove for good."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import dash
import dash_mantine_components as dmc
from dash import ALL, ClientsideFunction, Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.icons import icon
from app.dashboard.state import State
from app.dashboard.views.runs import common_tags, run_name, runs_named, when
from db.curation import (
    KEPT_AFTER_DELETION,
    RunWords,
    archive_runs,
    delete_runs,
    name_run,
    note_runs,
    purge_runs,
    put_words,
    restore_runs,
    tag_runs,
    words_of,
)
from db.database import DatabaseError
from db.models import utc_now
from db.queries import RunRow, get_run, run_choices
from profiles.plain import visible

Rows = list[dict[str, Any]] | None
MOST_COMPARED = 8
# Every action of the bar: its button's text, icon, and the parts of the list in which it is offered.
ACTIONS = {
    "edit": ("Tag and note", "tag", "current archived"),
    "archive": ("Archive", "archive", "current"),
    "unarchive": ("Take out of the archive", "archive", "archived"),
    "delete": ("Delete", "trash", "current archived"),
    "restore": ("Restore", "undo", "deleted"),
    "purge": ("Remove for good", "trash", "deleted"),
}


def bar(show: str, count: str) -> Any:
    """The row of actions above the table, those of the part of the list that is shown; ``count`` says how many runs."""
    buttons = [
        html.Div(
            parts.button(text, {"runs-do": name}, shape, disabled=True),
            className=" ".join(f"in-{p}" for p in where.split()),
        )
        for name, (text, shape, where) in ACTIONS.items()
    ]
    compare = html.Div(
        parts.button("Compare", "runs-compare", "compare", "filled", disabled=True), className="in-current in-archived"
    )
    return html.Div(
        [
            compare,
            *buttons,
            html.Span(id="runs-picked", className="hint"),
            html.Span(count, id="runs-count", className="hint"),
        ],
        id="runs-bar",
        className=f"runs-bar {show}",
        **{"data-most": MOST_COMPARED},
    )


def dialogs() -> Any:
    edit = dmc.Modal(
        [
            dmc.Stack(
                [
                    dmc.TextInput(id="runs-name", label="Name", placeholder="none", display="none"),
                    dmc.TagsInput(
                        id="runs-tags",
                        label="Tags",
                        placeholder="write one, then Enter",
                        acceptValueOnBlur=True,
                        clearable=True,
                    ),
                    dmc.Textarea(id="runs-note", label="Note", autosize=True, minRows=3, maxRows=12),
                ],
                gap="sm",
            ),
            html.Div(id="runs-edit-error"),
            dmc.Group(
                [
                    parts.button("Cancel", "runs-edit-cancel"),
                    parts.button("Save", "runs-edit-save", "check", "filled"),
                ],
                justify="flex-end",
                mt="md",
            ),
            dcc.Store(id="runs-editing"),
        ],
        id="runs-edit",
        title="",
        size="lg",
        closeButtonProps={"aria-label": "Close"},
    )
    purge = dmc.Modal(
        [
            html.P(id="runs-purge-text"),
            dmc.Group(
                [
                    parts.button("Keep them", "runs-purge-cancel"),
                    parts.button("Remove for good", "runs-purge-sure", "trash", "filled", color="red.9"),
                ],
                justify="flex-end",
            ),
        ],
        id="runs-purge",
        title="Remove for good?",
        closeButtonProps={"aria-label": "Close"},
    )
    toast = html.Div(
        [
            html.Span(id="runs-told"),
            parts.button("Undo", "runs-undo", "undo", "subtle"),
            dmc.ActionIcon(icon("close"), id="runs-told-close", variant="subtle", **{"aria-label": "Close"}),
            dcc.Store(id="runs-undoable"),
        ],
        id="runs-toast",
        className="runs-toast",
        role="status",
    )
    return html.Div([edit, purge, toast, dcc.Store(id="runs-done", data=0)])


def register(app: dash.Dash, shared: State) -> None:
    do = {name: Input({"runs-do": name}, "n_clicks") for name in ACTIONS}
    ticked = Given("runs-grid", "selectedRows")
    done = Output("runs-done", "data", allow_duplicate=True)
    told = Output("runs-told", "children", allow_duplicate=True)
    undoable = Output("runs-undoable", "data", allow_duplicate=True)

    @app.callback(
        Output("address", "href", allow_duplicate=True),
        Input("runs-compare", "n_clicks"),
        ticked,
        prevent_initial_call=True,
    )
    def compare(clicks: int | None, rows: Rows) -> Any:
        if not clicks or not rows:
            return dash.no_update
        return "/compare?runs=" + ",".join(map(str, _ids(rows)))

    simple = [do[name] for name in ("archive", "unarchive", "delete", "restore")]

    @app.callback(done, told, undoable, *simple, ticked, prevent_initial_call=True)
    def act(*given: Any) -> Any:
        ids = _ids(given[-1])
        if not any(given[:-1]) or not ids:
            return [dash.no_update] * 3
        name = ctx.triggered_id["runs-do"]
        if name == "delete":
            ids = delete_runs(shared.database, ids)
            text = f"Deleted {runs_named(ids)}. What is deleted can be restored for {KEPT_AFTER_DELETION.days} days."
            return _now(), text, {"undo": "delete", "runs": ids}
        if name == "restore":
            restore_runs(shared.database, ids)
            return _now(), f"Restored {runs_named(ids)}.", {"undo": "restore", "runs": ids}
        archive_runs(shared.database, ids, name == "archive")
        text = f"Archived {runs_named(ids)}." if name == "archive" else f"Took {runs_named(ids)} out of the archive."
        return _now(), text, {"undo": name, "runs": ids}

    @app.callback(
        done, told, undoable, Input("runs-undo", "n_clicks"), Given("runs-undoable", "data"), prevent_initial_call=True
    )
    def undo(clicks: int | None, what: dict[str, Any] | None) -> Any:
        if not clicks or not what:
            return [dash.no_update] * 3
        ids = what["runs"]
        if what["undo"] == "delete":
            restore_runs(shared.database, ids)
        elif what["undo"] == "restore":
            delete_runs(shared.database, ids)
        elif what["undo"] == "edit":
            put_words(shared.database, [RunWords(**run) for run in what["words"]])
        else:
            archive_runs(shared.database, ids, what["undo"] == "unarchive")
        return _now(), f"Undone for {runs_named(ids)}.", None

    @app.callback(
        Output("runs-edit", "opened"),
        Output("runs-edit", "title"),
        Output("runs-name", "value"),
        Output("runs-name", "display"),
        Output("runs-tags", "value"),
        Output("runs-tags", "data"),
        Output("runs-tags", "description"),
        Output("runs-note", "value"),
        Output("runs-note", "description"),
        Output("runs-editing", "data"),
        Output("runs-edit-error", "children"),
        do["edit"],
        ticked,
        prevent_initial_call=True,
    )
    def open_edit(clicks: int | None, rows: Rows) -> Any:
        if not clicks or not rows:
            return [dash.no_update] * 11
        runs = [get_run(shared.database, i) for i in _ids(rows)]
        one, tags = len(runs) == 1, common_tags(runs)
        notes = {run.note for run in runs}
        note, name = notes.pop() if len(notes) == 1 else "", runs[0].label if one else ""
        ids = [run.id for run in runs]
        editing = {"runs": ids, "tags": tags, "note": note, "name": name}
        return (
            True,
            run_name(runs[0])[:80] if one else runs_named(ids).capitalize(),
            name,
            None if one else "none",
            tags,
            run_choices(shared.database)["tag"],
            None if one else "Those that all of them have; other tags of theirs stay.",
            note,
            None if not notes else "They have different notes; what you write here replaces all of them.",
            editing,
            None,
        )

    @app.callback(
        Output("runs-edit", "opened", allow_duplicate=True),
        Output("runs-edit-error", "children", allow_duplicate=True),
        done,
        told,
        undoable,
        Input("runs-edit-save", "n_clicks"),
        Given("runs-editing", "data"),
        Given("runs-name", "value"),
        Given("runs-tags", "value"),
        Given("runs-note", "value"),
        prevent_initial_call=True,
    )
    def save(clicks: int | None, before: dict[str, Any] | None, name: str, tags: list[str] | None, note: str) -> Any:
        if not clicks or not before:
            return [dash.no_update] * 5
        ids, chosen = before["runs"], tags or []
        try:
            words = words_of(shared.database, ids)
            added = [tag for tag in chosen if tag not in before["tags"]]
            tag_runs(shared.database, ids, added, [tag for tag in before["tags"] if tag not in chosen])
            if (note or "").strip() != before["note"]:
                note_runs(shared.database, ids, note or "")
            if len(ids) == 1 and (name or "") != before["name"]:
                name_run(shared.database, ids[0], name or "")
        except DatabaseError as error:
            return dash.no_update, parts.notice("bad", str(error), "alert"), *[dash.no_update] * 3
        way_back = {"undo": "edit", "runs": ids, "words": [asdict(run) for run in words]}
        return False, None, _now(), f"Saved for {runs_named(ids)}.", way_back

    @app.callback(
        Output("runs-edit", "opened", allow_duplicate=True),
        Input("runs-edit-cancel", "n_clicks"),
        prevent_initial_call=True,
    )
    def leave(clicks: int | None) -> Any:
        return False if clicks else dash.no_update

    @app.callback(
        Output("runs-purge", "opened"),
        Output("runs-purge-text", "children"),
        do["purge"],
        Input("runs-purge-cancel", "n_clicks"),
        ticked,
        prevent_initial_call=True,
    )
    def ask_purge(_clicks: int | None, _kept: int | None, rows: Rows) -> Any:
        if ctx.triggered_id == "runs-purge-cancel" or not rows:
            return False, dash.no_update
        return True, f"The events of {runs_named(_ids(rows))} are removed from the database. This cannot be undone."

    @app.callback(
        Output("runs-purge", "opened", allow_duplicate=True),
        done,
        told,
        undoable,
        Input("runs-purge-sure", "n_clicks"),
        ticked,
        prevent_initial_call=True,
    )
    def purge(clicks: int | None, rows: Rows) -> Any:
        if not clicks or not rows:
            return [dash.no_update] * 4
        purge_runs(shared.database, _ids(rows))
        return False, _now(), f"Removed {runs_named(_ids(rows))} for good.", None

    @app.callback(
        Output({"run-restored": ALL}, "data"),
        Input({"run-restore": ALL}, "n_clicks"),
        prevent_initial_call=True,
    )
    def restore(clicks: list[int | None]) -> Any:
        if not any(clicks):
            return [dash.no_update] * len(clicks)
        restore_runs(shared.database, [ctx.triggered_id["run-restore"]])
        return [True] * len(clicks)

    picked = [Output("runs-picked", "children"), Output("runs-bar", "className"), Output("runs-compare", "disabled")]
    picked += [Output("runs-compare", "children"), Output({"runs-do": ALL}, "disabled")]
    now = [Input("runs-grid", "selectedRows"), Input("runs-asked", "data")]
    app.clientside_callback(ClientsideFunction("runs", "pick"), *picked, *now, Given({"runs-do": ALL}, "id"))
    for name, inputs in (
        ("done", [Input("runs-done", "data")]),
        ("restored", [Input({"run-restored": ALL}, "data")]),
    ):
        app.clientside_callback(ClientsideFunction("runs", name), *inputs, prevent_initial_call=True)
    app.clientside_callback(
        ClientsideFunction("runs", "tell"),
        Output("runs-toast", "className"),
        Input("runs-told", "children"),
        Input("runs-told-close", "n_clicks"),
        Given("runs-undoable", "data"),
        prevent_initial_call=True,
    )


def deleted_page(run: RunRow) -> Any:
    """What the page of a deleted run says, with the way back."""
    assert run.deleted is not None
    gone = run.deleted + KEPT_AFTER_DELETION
    return html.Div(
        [
            parts.state(
                "trash",
                f"Run {run.id} was deleted",
                f"{visible(run.label or run.model)}, {run.strategy}, {run.kind}; deleted {when(run.deleted)}. It can "
                f"be restored until {when(gone)}, unless it is removed for good before.",
                parts.button("Restore it", {"run-restore": run.id}, "undo", "filled"),
                parts.link_button("All runs", "/", "runs"),
            ),
            dcc.Store(id={"run-restored": run.id}),
        ]
    )


def _ids(rows: Rows) -> list[int]:
    return sorted(int(row["id"]) for row in rows or ())


def _now() -> str:
    """A value that differs from the one before, so that the page sees that something was done."""
    return utc_now().isoformat()
