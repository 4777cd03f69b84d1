"""What the page of experiments shows, as the query of its address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

MATRIX, RUNS = "limits", "runs"


@dataclass(frozen=True)
class ExperimentsAsked:
    """``show`` is `MATRIX`, `RUNS` or the name of a section of the report; ``strategies`` empty: the page's choice."""

    show: str = MATRIX
    workload: str = ""
    hardware: str = ""
    strategies: tuple[str, ...] = ()
    graph: str = ""


def asked_for(query: Mapping[str, str], known: Mapping[str, Sequence[str]]) -> ExperimentsAsked:
    """``known`` holds what there is of each: show, workload, hardware, strategy, graph. What is not there is the first
    that is."""

    def one(name: str) -> str:
        return query.get(name, "") if query.get(name) in known[name] else next(iter(known[name]), "")

    strategies = tuple(s for s in query.get("strategies", "").split(",") if s in known["strategy"])
    return ExperimentsAsked(one("show"), one("workload"), one("hardware"), strategies, one("graph"))


def address(asked: ExperimentsAsked) -> str:
    given: dict[str, str] = {"show": asked.show}
    if asked.show == MATRIX:
        given |= {"workload": asked.workload, "hardware": asked.hardware, "strategies": ",".join(asked.strategies)}
    elif asked.show == RUNS:
        given |= {"graph": asked.graph}
    return f"/experiments?{urlencode({k: v for k, v in given.items() if v}, safe=',')}"
