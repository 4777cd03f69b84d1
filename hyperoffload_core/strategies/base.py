"""What every strategy takes and gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.policy import Action

OptionValue = bool | int | float | str


class StrategyError(UserError):
    """A strategy or option that does not exist, or a value it does not take."""


class Cancelled(Exception):  # noqa: N818 - not a fault
    """The person who asked for the plan does not want it any more."""


@dataclass(frozen=True)
class Option:
    """A knob: its type is the type of its default. ``choices`` are the only values of a text option."""

    name: str
    default: OptionValue
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None


def _silent(fraction: float, words: str) -> None:
    """Progress that nobody watches."""


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Request:
    """One planning problem.

    ``actions[storage]`` is what the policy's rules say. ``progress`` takes a fraction and a few words; ``cancelled``
    is asked now and then.
    """

    graph: Graph
    durations_ns: tuple[int, ...]
    hardware: Hardware
    limit_bytes: int
    actions: tuple[Action, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[float, str], None] = _silent
    cancelled: Callable[[], bool] = _never

    def of(self, graph: Graph) -> Request:
        """The same problem for the request's graph with recomputed ops: they take as long as their originals, and no
        rule speaks of copies."""
        durations_ns = tuple(self.durations_ns[op] for op in graph.origins)
        free: Action = "auto"
        actions = self.actions + (free,) * (len(graph.storages) - len(self.graph.storages))
        return replace(self, graph=graph, durations_ns=durations_ns, actions=actions)

    def check_cancelled(self) -> None:
        if self.cancelled():
            raise Cancelled


@dataclass(frozen=True)
class Strategy:
    """``plan`` turns a request into a plan; ``source`` says where the algorithm is from.

    With ``keeps_limit`` the plan meets the memory limit or `NoPlacementError` is raised. Without it the strategy may
    return a plan that is over the limit, as the system it stands for would run out of memory; the schedule then says
    by how much. ``leaves`` says what alone may leave the device under it, "" where it says so in notes of its own or
    anything may.
    """

    name: str
    title: str
    help: str
    source: str
    plan: Callable[[Request], Plan]
    options: tuple[Option, ...] = ()
    keeps_limit: bool = False
    leaves: str = ""
