"""What a page asks a job to do, from the texts of its fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.requests import CompileRequest, RunRequest
from db.queries import RunRow
from hyperoffload_core.errors import UserError
from hyperoffload_core.policy import Policy
from hyperoffload_core.sizes import parse_rate
from hyperoffload_core.workloads import WITHOUT_WEIGHTS, workload_names

MOST_STEPS = 1000


class LinkError(UserError):
    """A link bandwidth that cannot be used; shown beside its field."""


class StepsError(UserError):
    """A number of steps that cannot be run; shown beside its field."""


class ModelError(UserError):
    """A model that cannot be used; shown beside its field."""


def compile_request(
    model: str, policy: Policy, hardware: str | None, link: str | None, version: int | None, label: str
) -> CompileRequest:
    """Predict on ``hardware``, None for the run's own, with both directions of the link at ``link`` where it is given.

    Raises `LinkError`.
    """
    overrides: dict[str, Any] = {}
    text = (link or "").strip()
    if text:
        _check_rate(text)
        overrides = {"link.in": text, "link.out": text}
    return CompileRequest(
        model=model, policy=policy, hardware=hardware, overrides=overrides, policy_version_id=version, label=label
    )


def run_request(
    model: str,
    policy: Policy,
    link: str | None,
    steps: Any,
    version: int | None,
    label: str,
    *,
    graph_mode: bool = False,
) -> RunRequest:
    """Execute on this machine with the link paced to ``link``, op by op or in MindSpore's graph mode.

    Raises `LinkError`, `StepsError`.
    """
    text = (link or "").strip() or "unlimited"
    _check_rate(text)
    return RunRequest(
        model=model,
        policies=(policy,),
        steps=checked_steps(steps),
        link_bandwidth=text,
        graph_mode=graph_mode,
        policy_version_ids=(version,),
        label=label,
    )


def checked_steps(value: Any) -> int:
    """How many steps a field asks for. Raises `StepsError`."""
    text = str(value).strip()
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(MOST_STEPS)) else 0
    if not 1 <= number <= MOST_STEPS:
        raise StepsError(f"write a whole number of steps, from 1 to {MOST_STEPS:,}")
    return number


def checked_model(text: str) -> str:
    """A workload's name or ``FILE.py:FUNCTION`` with an absolute path. Raises `ModelError`; runs nothing."""
    model = text.strip()
    if not model:
        raise ModelError("choose a workload, or write FILE.py:FUNCTION")
    if model in workload_names():
        return model
    file_name, colon, function = model.rpartition(":")
    if not colon or not file_name.endswith(".py") or not function.isidentifier():
        raise ModelError(f"{model!r} is no workload; for a model of your own write FILE.py:FUNCTION")
    path = Path(file_name).expanduser().absolute()
    if not path.is_file():
        raise ModelError(f"there is no file {path}")
    return f"{path}:{function}"


def runnable(run: RunRow) -> str:
    """Why a run's model cannot be executed here; empty when it can."""
    model = run.source.get("model")
    if not model:
        return "This run does not say how to capture its model again, so it can be predicted, not run."
    return runnable_model(str(model))


def runnable_model(model: str) -> str:
    if model in WITHOUT_WEIGHTS:
        return f"{model} is too large to run on this machine: it can be predicted."
    return ""


def _check_rate(text: str) -> None:
    try:
        parse_rate(text)
    except UserError as error:
        raise LinkError(str(error)) from error
