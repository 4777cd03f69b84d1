"""What the process of a planner keeps: the problems asked for last, and every answer by what it depends on."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from app.actions import Problem, compile_problem
from app.planner import Ask
from app.predicting import Prediction, predict
from app.requests import CompileRequest
from db.database import Database, DatabaseError, open_database
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.errors import UserError
from hyperoffload_core.policy import Policy
from hyperoffload_core.strategies import Cancelled

_PROBLEMS, _ANSWERS = 4, 4000
"""How many graphs with their durations, and how many predictions, are kept."""


@dataclass(frozen=True)
class _Known:
    """A problem with a hash of all that an answer depends on beside the policy."""

    problem: Problem
    key: str


def answer_asks(pipe: Connection, database_path: Path) -> None:
    """What the planner's process does until the pipe closes: an `Ask` comes in, its predictions go out, then None or a
    sentence on what was wrong; anything that comes in meanwhile cancels."""
    answers = Answers(database_path)
    try:
        while True:
            ask = pipe.recv()
            if ask is not None:
                answers.answer(ask, pipe.send, pipe.poll)
    except (EOFError, OSError, KeyboardInterrupt):
        return


class Answers:
    """Answers asks over one database; used by one thread."""

    def __init__(self, database_path: Path) -> None:
        self._database: Database = open_database(database_path, create=False)
        self._problems: OrderedDict[Any, _Known] = OrderedDict()
        self._answers: OrderedDict[tuple[str, str], Prediction] = OrderedDict()

    def answer(self, ask: Ask, say: Callable[[Any], None], cancelled: Callable[[], bool]) -> None:
        """Say each prediction, then None; or a sentence on what was wrong."""
        try:
            known = self._known(ask)
            for policy in ask.policies:
                if cancelled():
                    break
                say(self._prediction(known, policy, cancelled))
        except Cancelled:
            pass
        except (UserError, DatabaseError) as error:
            say(str(error))
            return
        except Exception as error:  # a bug of a strategy must not end the process of all pages
            say(f"a fault of HyperOffload ({type(error).__name__}: {error})"[:300])
            return
        say(None)

    def _known(self, ask: Ask) -> _Known:
        key = (ask.model, ask.hardware, ask.overrides)
        if key not in self._problems:
            request = CompileRequest(
                model=ask.model, policy=Policy(), hardware=ask.hardware, overrides=dict(ask.overrides)
            )
            problem = compile_problem(request, self._database, lambda *_: None, lambda: False)
            self._problems[key] = _Known(problem, _hash(problem))
            while len(self._problems) > _PROBLEMS:
                self._problems.popitem(last=False)
        self._problems.move_to_end(key)
        return self._problems[key]

    def _prediction(self, known: _Known, policy: Policy, cancelled: Callable[[], bool]) -> Prediction:
        """As kept, else predicted now. Equal limits in other words are one question."""
        problem = known.problem
        limit = policy.limit_bytes(live_peak_bytes(problem.content.graph), problem.hardware.device_bytes)
        same = policy.model_copy(update={"name": "", "memory_limit": f"{limit}B"})
        key = (known.key, same.model_dump_json())
        if key not in self._answers:
            self._answers[key] = predict(problem, policy, cancelled)
            while len(self._answers) > _ANSWERS:
                self._answers.popitem(last=False)
        self._answers.move_to_end(key)
        return self._answers[key]


def _hash(problem: Problem) -> str:
    text = f"{problem.content.graph.hash} {problem.durations.ns} {problem.hardware!r}"
    return hashlib.sha256(text.encode()).hexdigest()
