"""The policy editor: limit, strategy with its options, rules, and the same as text. One draft, kept in the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from app.dashboard import parts
from app.dashboard.icons import icon
from app.dashboard.views.pareto import AXIS_PERCENT
from app.dashboard.views.policy import Checked, Draft, Ground, check, limit_percent, option_errors, option_words
from hyperoffload_core.ir import PHASES, TENSOR_CLASSES
from hyperoffload_core.policy import PRESETS, policy_to_document
from hyperoffload_core.sizes import format_bytes
from hyperoffload_core.strategies import STRATEGIES, Option
from profiles.plain import visible

DEBOUNCE_MS = 150
"""After so long without a key a typed value counts. Each is predicted, and a newer one ends the prediction."""
SAVED = "saved:"
"""In front of a saved policy's name where presets can be chosen as well."""


def editor(draft: Draft, ground: Ground | None, ground_key: dict[str, Any], saved: Sequence[str] = ()) -> Any:
    """All of it as panels below each other, for a page that has nothing else; ``saved`` names saved policies."""
    checked = check(draft, ground)
    return html.Div(
        [
            stores(draft, checked, ground_key),
            parts.panel(
                "Policy", [name_fields(draft, saved), limit_fields(draft, ground, checked), strategy(draft, checked)]
            ),
            parts.panel("Rules", rules(checked, matched=ground is not None), hint=RULES_HINT),
            parts.panel("As text", text(checked), hint=TEXT_HINT),
        ],
        className="stack",
    )


def stores(draft: Draft, checked: Checked, ground_key: dict[str, Any]) -> Any:
    """The draft, where its ground is (``{"run": id}``, with ``"page"`` where predictions are made, or ``{}``), and the
    policy as a document while it is valid."""
    return html.Div(
        [
            dcc.Store(id="policy-draft", data=asdict(draft)),
            dcc.Store(id="policy-ground", data=ground_key),
            dcc.Store(id="policy-valid", data=valid_document(checked)),
        ],
        hidden=True,
    )


def name_fields(draft: Draft, saved: Sequence[str] = ()) -> Any:
    """The name, and what to start from: a preset, or the latest version of a saved policy."""
    groups = [{"group": "Presets", "items": [{"value": name, "label": name} for name in PRESETS]}]
    if saved:
        items = [{"value": f"{SAVED}{name}", "label": visible(name, 80)} for name in saved]
        groups.append({"group": "Saved policies, latest version", "items": items})
    return dmc.Group(
        [
            dmc.TextInput(
                id="policy-name",
                label="Name",
                value=draft.name,
                description="What is compiled or saved is kept as a version under this name.",
                style={"flex": 1},
            ),
            dmc.Select(
                id="policy-preset",
                label="Start from",
                description="Replaces name, limit, strategy and rules.",
                placeholder="a preset or saved policy",
                data=groups,
                searchable=True,
                value=None,
                w=260,
            ),
        ],
        align="flex-end",
    )


def limit_fields(draft: Draft, ground: Ground | None, checked: Checked) -> Any:
    return html.Div([limit_text(draft, checked), limit_slider(draft, ground)], className="limit")


def limit_text(draft: Draft, checked: Checked) -> Any:
    return dmc.TextInput(
        id="policy-limit",
        label="Memory limit",
        value=draft.limit,
        placeholder="60% or 48GiB",
        description=limit_note(checked),
        error=checked.limit_error or None,
        style={"flex": 1},
    )


def limit_slider(draft: Draft, ground: Ground | None, *, marked: bool = True) -> Any:
    marks = []
    if ground is not None and marked:
        floor = 100 * ground.smallest_bytes / max(1, ground.live_peak_bytes)
        marks = [{"value": floor, "label": f"smallest {format_bytes(ground.smallest_bytes)}"}]
        if floor < 75:
            marks.append({"value": 100, "label": f"no offload {format_bytes(ground.live_peak_bytes)}"})
    room = {"mb": 26, "mt": 8, "px": 56} if marked else {}
    return dmc.Slider(
        id="policy-slider",
        min=0,
        max=AXIS_PERCENT,
        step=1,
        value=slider_value(draft.limit, ground),
        marks=marks,
        updatemode="mouseup",
        label={"function": "percent"},
        display=None if ground is not None else "none",
        **room,
        # What is focused, and read out, is the thumb.
        thumbLabel="Memory limit in percent of the peak without offload",
    )


def strategy(draft: Draft, checked: Checked) -> Any:
    return html.Div(
        [
            dmc.Select(
                id="policy-strategy",
                label="Strategy",
                data=[{"value": s.name, "label": s.title} for s in STRATEGIES.values()],
                value=draft.strategy,
                allowDeselect=False,
                searchable=True,
                error=strategy_error(draft, checked),
                description=strategy_help(draft.strategy),
            ),
            html.Div(options_fields(draft), id="policy-options", className="options"),
        ],
        className="pair",
    )


RULES_HINT = (
    "The first rule that matches a storage decides; the arrows change the order. keep: on the device for the whole "
    "step; offload: in the pool in every reuse gap where that saves memory; auto: the strategy decides. "
    "Earlier: "
    "start its prefetches so much before the planned time, such as 2ms, as far as memory allows. "
    "Patterns: * stands for anything, as in */3-Block/*. A rule that matches nothing is an error."
)
TEXT_HINT = "The same as TOML, for `hyperoffload compile --policy FILE`. Editing it changes the fields."


def rules(checked: Checked, *, matched: bool = True) -> list[Any]:
    """``matched``: there is a graph to count matches in."""
    return [
        parts.grid(
            "policy-rules",
            [column for column in RULE_COLUMNS if matched or column.get("field") != "count"],
            checked.rows,
            getRowId="params.data.id",
            options={
                "domLayout": "autoHeight",
                "singleClickEdit": True,
                "stopEditingWhenCellsLoseFocus": True,
                "localeText": {"noRowsToShow": "No rules: the strategy decides for every storage."},
            },
            default_column={"sortable": False},
            style={"height": None},
        ),
        html.Div(rule_error(checked), id="policy-rule-error", **{"aria-live": "polite"}),
        dmc.Button("Add rule", id="policy-add", variant="light", size="xs", leftSection=icon("plus", 14), mt=10),
    ]


def text(checked: Checked) -> Any:
    return dmc.Textarea(
        id="policy-toml",
        value=checked.toml,
        autosize=True,
        minRows=4,
        debounce=True,
        className="mono-input",
        **{"aria-label": "Policy as TOML"},
    )


RULE_COLUMNS: list[dict[str, Any]] = [
    {"field": "number", "headerName": "#", "width": 34, "editable": False},
    {
        "field": "class",
        "headerName": "Class",
        "width": 104,
        "editable": True,
        "cellEditor": "agSelectCellEditor",
        "cellEditorParams": {"values": ["", *TENSOR_CLASSES]},
    },
    {"field": "scope", "headerName": "Scope", "minWidth": 60, "flex": 1, "editable": True},
    {"field": "name", "headerName": "Name", "minWidth": 60, "flex": 1, "editable": True},
    {"field": "min_size", "headerName": "From", "width": 62, "editable": True},
    {"field": "max_size", "headerName": "To", "width": 58, "editable": True},
    {
        "field": "phase",
        "headerName": "Phase",
        "width": 78,
        "editable": True,
        "cellEditor": "agSelectCellEditor",
        "cellEditorParams": {"values": ["", *PHASES]},
    },
    {
        "field": "action",
        "headerName": "Action",
        "width": 78,
        "editable": True,
        "cellEditor": "agSelectCellEditor",
        "cellEditorParams": {"values": ["keep", "offload", "auto"]},
    },
    {
        "field": "prefetch_earlier",
        "headerName": "Earlier",
        "headerTooltip": "Start its prefetches so much earlier than planned, such as 2ms, as far as memory allows",
        "width": 74,
        "editable": True,
    },
    {"field": "count", "headerName": "Matches", "width": 118, "cellRenderer": "Matches"},
    {
        "colId": "up",
        "headerName": "",
        "width": 32,
        "cellRenderer": "Act",
        "cellRendererParams": {"text": "↑", "label": "Move up"},
    },
    {
        "colId": "down",
        "headerName": "",
        "width": 32,
        "cellRenderer": "Act",
        "cellRendererParams": {"text": "↓", "label": "Move down"},
    },
    {
        "colId": "remove",
        "headerName": "",
        "width": 32,
        "cellRenderer": "Act",
        "cellRendererParams": {"text": "✕", "label": "Remove"},
    },
]


def options_fields(draft: Draft) -> list[Any]:
    """A field for each option of the chosen strategy, with its meaning, its default and what is wrong with it."""
    if draft.strategy not in STRATEGIES:
        return []
    options = STRATEGIES[draft.strategy].options
    if not options:
        return [html.Div("This strategy has no options.", className="hint")]
    wrong = option_errors(draft)
    return [_option_field(o, draft.options.get(o.name, o.default), wrong.get(o.name)) for o in options]


def _option_field(option: Option, value: Any, error: str | None) -> Any:
    words = option_words(option)
    if isinstance(option.default, bool):
        identity = {"option": option.name, "kind": "switch"}
        return dmc.Switch(id=identity, label=words.title, description=words.help, checked=bool(value))
    identity = {"option": option.name, "kind": "value"}
    common = {"label": words.title, "description": words.help, "value": value, "error": error}
    if option.choices:
        return dmc.Select(id=identity, data=list(option.choices), allowDeselect=False, **common)
    if isinstance(option.default, str):
        return dmc.TextInput(id=identity, debounce=DEBOUNCE_MS, **common)
    whole = isinstance(option.default, int)
    # Not clamped: a number out of range stays as typed, with what is wrong below it.
    return dmc.NumberInput(
        id=identity,
        min=option.minimum,
        max=option.maximum,
        allowDecimal=not whole,
        thousandSeparator=" ",
        clampBehavior="none",
        debounce=DEBOUNCE_MS,
        **common,
    )


def limit_note(checked: Checked) -> str | None:
    """What stands below the label of the limit; nothing where the error says more."""
    if checked.limit_error:
        return None
    return checked.limit_note or "A share of the peak without offload, such as 60%, or a size, such as 48GiB."


def strategy_error(draft: Draft, checked: Checked) -> str | None:
    """What stands below the strategy: nothing where it is an option that is wrong, which says so itself."""
    return None if option_errors(draft) else checked.strategy_error or None


def strategy_help(name: str) -> str:
    return STRATEGIES[name].help if name in STRATEGIES else ""


def rule_error(checked: Checked) -> Any:
    return parts.notice("bad", checked.rule_error, "alert") if checked.rule_error else None


def valid_document(checked: Checked) -> dict[str, Any] | None:
    """The policy as a document, None while something is wrong with it."""
    return None if checked.policy is None else policy_to_document(checked.policy)


def slider_value(limit: str, ground: Ground | None) -> int:
    percent = limit_percent(limit, ground) if ground is not None else None
    return round(min(percent, AXIS_PERCENT)) if percent is not None else 0
