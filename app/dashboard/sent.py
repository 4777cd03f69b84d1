"""What pages send to callbacks, property by property, and how to tell a request that none of them sent.

Callbacks take what they get for what a page sends. Where one fails, what it got is held against this table: if that is
of another shape, the request was made up and is answered with a sentence; else the failure is a fault of the program.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from hyperoffload_core.strategies import STRATEGIES
from profiles.alive import Group
from profiles.op_groups import OpGrouping
from profiles.stacks import Grouping

# Larger whole numbers a browser does not hold exactly.
Whole = Annotated[int, Field(ge=-(2**53), le=2**53)]
Id = Annotated[int, Field(ge=0, le=2**53)]
Number = Annotated[float, Field(ge=-(2**53), le=2**53, allow_inf_nan=False)]
Digits = Annotated[str, Field(pattern=r"^[0-9]{1,15}$")]
Name = Annotated[str, Field(max_length=100_000)]
Texts = dict[str, str]


class Picked(TypedDict):
    kind: Literal["op", "transfer", "storage"]
    id: Id


class RunShown(TypedDict):
    id: Id
    step: Id | Literal["all"]
    kind: Literal["measured", "predicted"]
    numbered: bool
    picked: Picked | None
    peak_ns: Whole
    group: NotRequired[str]


class Point(TypedDict, total=False):
    x: Number | str
    y: Number | str
    base: Number
    customdata: Id | str | tuple[str, str, Id] | list[Id | str] | None


class Click(TypedDict, total=False):
    points: list[Point]
    xvals: list[Number]
    yvals: list[Number]
    yaxes_id: str


class Drag(TypedDict):
    x: Number
    y: Number
    by: Number
    pixel: Number


class Compared(TypedDict):
    runs: list[Id]
    baseline: Id | None


class GraphShown(TypedDict):
    run: Id
    query: Texts


class RunWords(TypedDict):
    run: Id
    name: str
    tags: list[str]
    note: str


class Undoable(TypedDict, total=False):
    undo: Literal["delete", "restore", "archive", "unarchive", "edit"]
    runs: list[Id]
    words: list[RunWords]


class Editing(TypedDict):
    runs: list[Id]
    tags: list[str]
    note: str
    name: str


class Sorted(TypedDict, total=False):
    colId: str
    sort: Literal["asc", "desc"]


class Asked(TypedDict):
    startRow: Id
    endRow: Id
    sortModel: NotRequired[list[Sorted]]


class Ticked(TypedDict):
    id: Id


class Ground(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    run: Id


class Draft(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    name: str
    limit: str
    strategy: str
    options: dict[str, bool | Whole | Number | str]
    rules: list[dict[str, Id | str]]


def _known(strategy: str) -> str:
    if strategy not in STRATEGIES:
        raise ValueError("no strategy")
    return strategy


class Valid(TypedDict, total=False):
    name: str
    memory_limit: str
    strategy: Annotated[str, AfterValidator(_known)]
    options: dict[str, bool | Whole | Number | str]
    rules: list[dict[str, Any]]


class Hardware(TypedDict):
    hardware: str | None
    overrides: dict[str, str | Number]
    errors: Texts


class Sweep(TypedDict):
    key: str
    stopped: bool


class Now(TypedDict):
    strategy: str
    limit_bytes: Whole
    step_ns: Whole
    memory_bytes: Whole


class Edited(TypedDict):
    rowId: str
    data: dict[str, Any]


class Acted(TypedDict, total=False):
    rowId: str
    colId: str
    value: Any


class Question(TypedDict, total=False):
    question: str
    about: str


Window = tuple[Whole, Whole]


class InSight(TypedDict):
    window: Window | None


# By id and property, or by property for all others. A dict id goes by its first name.
SENT: dict[str, Any] = {
    "n_clicks": Whole | None,
    "n_intervals": Whole | None,
    "disabled": bool | None,
    "checked": bool | None,
    "value": Name | Whole | Number | bool | None,
    "clickData": Click | None,
    "cellRendererData": Acted | None,
    "pathname": Annotated[str, Field(pattern="^/")],
    "search": str,
    "run.data": RunShown,
    "run-picked.data": Picked | None,
    "run-cursor.data": Whole,
    "run-window.data": Window | None,
    "run-selection.data": Window | None,
    "run-target.data": Window | None,
    "run-drag.data": Drag | None,
    "run-ask.data": Question | None,
    "run-question.value": str | None,
    "run-search.value": str | None,
    "run-show.value": Literal["measured", "predicted", "both"],
    "run-by.value": Grouping,
    "run-group.value": Group,
    "run-mode.value": Literal["zoom", "select"],
    "run-step.value": Digits | Literal["all"] | None,
    "run-timeline-zoom.data": dict[str, Any] | None,
    "tiers-chart-zoom.data": dict[str, Any] | None,
    "addresses-chart-zoom.data": dict[str, Any] | None,
    "compare-timeline-zoom.data": dict[str, Any] | None,
    "tiers-rows.data": list[Id],
    "tiers-added.data": list[Id],
    "tiers-search.value": str | None,
    "tiers-classes.value": list[str] | None,
    "tiers-chart-window.data": InSight | None,
    "addresses-places.data": tuple[Number, Number] | None,
    "addresses-chart-window.data": InSight | None,
    "graph.data": GraphShown,
    "graph-picked.data": str | None,
    "graph-hops.value": Digits,
    "graph-stages.value": Literal["captured", "scheduled", "both"],
    "graph-search.value": str | None,
    "graph-node.className": str,
    "compare.data": Compared,
    "compare-runs.value": list[Digits] | None,
    "compare-runs.data": list[Texts] | None,
    "compare-runs.searchValue": str | None,
    "compare-axis.value": Literal["time", "op"] | None,
    "compare-by.value": OpGrouping | None,
    "compare-tab.value": Literal["decisions", "time", "storages", "transfers"] | None,
    "compare-filter.value": str | None,
    "experiments.data": dict[str, str | None],
    "experiments-strategies.value": list[str] | None,
    "experiments-graph.value": str | None,
    "experiments-hardware.value": str | None,
    "experiments-workload.value": str | None,
    "runs-asked.data": Texts,
    "runs-stamp.data": str,
    "runs-wanted.data": Asked | None,
    "runs-grid.selectedRows": list[Ticked] | None,
    "runs-editing.data": Editing | None,
    "runs-undoable.data": Undoable | None,
    "runs-name.value": str | None,
    "runs-note.value": str | None,
    "runs-tags.value": list[str] | None,
    "sql-asked.data": Texts,
    "sql-drawn.data": Texts | None,
    "sql-text.value": str | None,
    "sql-saved.value": str | None,
    "sql-save-name.value": str | None,
    "sql-run-name.value": str | None,
    "sql-kind.value": str | None,
    "sql-x.value": Digits | None,
    "sql-y.value": Digits | None,
    "sql-by.value": Digits | None,
    "job-id.data": Id | None,
    "job-found.data": Id | None,
    "policy-draft.data": Draft,
    "policy-ground.data": Ground,
    "policy-valid.data": Valid | None,
    "policy-name.value": str,
    "policy-limit.value": str,
    "policy-toml.value": str,
    "policy-strategy.value": str | None,
    "policy-preset.value": str | None,
    "policy-slider.value": Number,
    "policy-rules.cellValueChanged": list[Edited] | None,
    "tune.data": Id,
    "tune-page.data": str,
    "tune-label.value": str | None,
    "tune-hardware.value": str | None,
    "tune-hardware-given.data": Hardware,
    "tune-now.data": Now | None,
    "tune-sweep.data": Sweep,
    "tune-strategies.value": list[str],
    "tune-from.value": str | None,
    "tune-to.value": str | None,
    "tune-measure.value": Literal["step", "memory"],
    "new-model.value": str | None,
    "new-hardware.value": str,
    "new-link.value": str | None,
    "new-label.value": str | None,
    "new-workload.value": str | None,
}


def unsent(given: Iterable[Any]) -> list[str]:
    """Names of the properties that are of another shape than any page sends; ``given`` as in `dash.ctx.inputs_list`."""
    wrong = []
    for one in given:
        for sent in one if isinstance(one, list) else [one]:
            identity, name = sent["id"], sent["property"]
            own = min(identity) if isinstance(identity, Mapping) else identity
            if not _fits(f"{own}.{name}", sent.get("value")):
                wrong.append(f"{own}.{name}")
    return list(dict.fromkeys(wrong))


def _fits(name: str, value: Any) -> bool:
    try:
        _shape(name).validate_json(json.dumps(value), strict=True)
    except (ValidationError, ValueError):
        return False
    return True


@cache
def _shape(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(SENT.get(name, SENT.get(name.rpartition(".")[2], Any)))
