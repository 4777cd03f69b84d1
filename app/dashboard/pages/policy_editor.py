"""The policy editor: limit, strategy with its options, rules, and the same as text. One draft, kept in the page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from app.dashboard import parts
from app.dashboard.icons import icon
from app.dashboard.views.policy import Checked, Draft, Ground, check, limit_percent
from hyperoffload_core.ir import PHASES, TENSOR_CLASSES
from hyperoffload_core.policy import PRESETS, policy_to_document
from hyperoffload_core.sizes import format_bytes
from hyperoffload_core.strategies import STRATEGIES, Option

SLIDER_TOP = 110


def editor(draft: Draft, ground: Ground | None, ground_key: dict[str, Any]) -> Any:
    """The panels; ``ground_key`` tells `register`'s callback where the ground is (``{"run": id}`` or ``{}``)."""
    checked = check(draft, ground)
    return html.Div(
        [
            dcc.Store(id="policy-draft", data=asdict(draft)),
            dcc.Store(id="policy-ground", data=ground_key),
            dcc.Store(id="policy-valid", data=valid_document(checked)),
            parts.panel(
                "Policy",
                [
                    dmc.Group(
                        [
                            dmc.TextInput(
                                id="policy-name",
                                label="Name",
                                value=draft.name,
                                description="Each change is kept as a version under this name.",
                                style={"flex": 1},
                            ),
                            dmc.Select(
                                id="policy-preset",
                                label="Start from",
                                description="Replaces everything below.",
                                placeholder="a preset",
                                data=list(PRESETS),
                                value=None,
                                w=220,
                            ),
                        ],
                        align="flex-end",
                    ),
                    _limit(draft, ground, checked),
                    html.Div(
                        [
                            dmc.Select(
                                id="policy-strategy",
                                label="Strategy",
                                data=[{"value": s.name, "label": s.title} for s in STRATEGIES.values()],
                                value=draft.strategy,
                                allowDeselect=False,
                                error=checked.strategy_error or None,
                                description=strategy_help(draft.strategy),
                            ),
                            html.Div(options_fields(draft), id="policy-options", className="options"),
                        ],
                        className="pair",
                    ),
                ],
            ),
            parts.panel(
                "Rules",
                [
                    parts.grid(
                        "policy-rules",
                        RULE_COLUMNS,
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
                    dmc.Button(
                        "Add rule", id="policy-add", variant="light", size="xs", leftSection=icon("plus", 14), mt=10
                    ),
                ],
                hint="The first rule that matches a storage decides. A rule that matches nothing is an error. "
                "Patterns: * stands for anything, as in */3-Block/*.",
            ),
            parts.panel(
                "As text",
                dmc.Textarea(
                    id="policy-toml",
                    value=checked.toml,
                    autosize=True,
                    minRows=4,
                    debounce=True,
                    className="mono-input",
                    **{"aria-label": "Policy as TOML"},
                ),
                hint="The same as TOML, for `hyperoffload compile --policy FILE`. Editing it changes the fields.",
            ),
        ],
        className="stack",
    )


def _limit(draft: Draft, ground: Ground | None, checked: Checked) -> Any:
    text = dmc.TextInput(
        id="policy-limit",
        label="Memory limit",
        value=draft.limit,
        placeholder="60% or 48GiB",
        description=limit_note(checked),
        error=checked.limit_error or None,
        style={"flex": 1},
    )
    marks = []
    if ground is not None:
        floor = 100 * ground.smallest_bytes / max(1, ground.live_peak_bytes)
        marks = [{"value": floor, "label": f"smallest {format_bytes(ground.smallest_bytes)}"}]
        if floor < 75:
            marks.append({"value": 100, "label": f"no offload {format_bytes(ground.live_peak_bytes)}"})
    slider = dmc.Slider(
        id="policy-slider",
        min=0,
        max=SLIDER_TOP,
        step=1,
        value=slider_value(draft.limit, ground),
        marks=marks,
        updatemode="mouseup",
        label={"function": "percent"},
        mb=26,
        mt=8,
        px=56,
        display=None if ground is not None else "none",
        **{"aria-label": "Memory limit in percent of the peak without offload"},
    )
    return html.Div([text, slider], className="limit")


RULE_COLUMNS: list[dict[str, Any]] = [
    {"field": "number", "headerName": "#", "width": 38, "editable": False},
    {
        "field": "class",
        "headerName": "Class",
        "width": 120,
        "editable": True,
        "cellEditor": "agSelectCellEditor",
        "cellEditorParams": {"values": ["", *TENSOR_CLASSES]},
    },
    {"field": "scope", "headerName": "Scope", "minWidth": 80, "flex": 1, "editable": True},
    {"field": "name", "headerName": "Name", "minWidth": 70, "flex": 1, "editable": True},
    {"field": "min_size", "headerName": "From", "width": 74, "editable": True},
    {"field": "max_size", "headerName": "To", "width": 70, "editable": True},
    {
        "field": "phase",
        "headerName": "Phase",
        "width": 88,
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
    {"field": "count", "headerName": "Matches", "width": 118, "cellRenderer": "Matches"},
    {
        "colId": "up",
        "headerName": "",
        "width": 32,
        "cellRenderer": "Act",
        "cellRendererParams": {"text": "↑", "label": "Move up"},
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
    """A field for each option of the chosen strategy, with its meaning."""
    if draft.strategy not in STRATEGIES:
        return []
    strategy = STRATEGIES[draft.strategy]
    if not strategy.options:
        return [html.Div("This strategy has no options.", className="hint")]
    return [_option_field(option, draft.options.get(option.name, option.default)) for option in strategy.options]


def _option_field(option: Option, value: Any) -> Any:
    title = option.name.replace("_", " ").capitalize()
    if isinstance(option.default, bool):
        identity = {"option": option.name, "kind": "switch"}
        return dmc.Switch(id=identity, label=title, description=option.help, checked=bool(value))
    identity = {"option": option.name, "kind": "value"}
    words = {"label": title, "description": option.help, "value": value}
    if option.choices:
        return dmc.Select(id=identity, data=list(option.choices), allowDeselect=False, **words)
    if isinstance(option.default, str):
        return dmc.TextInput(id=identity, debounce=400, **words)
    whole = isinstance(option.default, int)
    return dmc.NumberInput(id=identity, min=option.minimum, allowDecimal=not whole, debounce=400, **words)


def limit_note(checked: Checked) -> str | None:
    """What stands below the label of the limit; nothing where the error says more."""
    if checked.limit_error:
        return None
    return checked.limit_note or "A share of the peak without offload, such as 60%, or a size, such as 48GiB."


def strategy_help(name: str) -> str:
    return STRATEGIES[name].help if name in STRATEGIES else ""


def rule_error(checked: Checked) -> Any:
    return parts.notice("bad", checked.rule_error, "alert") if checked.rule_error else None


def valid_document(checked: Checked) -> dict[str, Any] | None:
    """The policy as a document, None while something is wrong with it."""
    return None if checked.policy is None else policy_to_document(checked.policy)


def slider_value(limit: str, ground: Ground | None) -> int:
    percent = limit_percent(limit, ground) if ground is not None else None
    return round(min(percent, SLIDER_TOP)) if percent is not None else 0
