"""What can be asked for, from the command line and from the browser alike: a compile or a run. Plain data (JSON)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from hyperoffload_core.policy import Policy


class CompileRequest(BaseModel):
    """Compile one policy and record the prediction as a run.

    ``model`` is a workload's name, ``FILE.py:FUNCTION`` (absolute when it goes into a job), a graph file, or
    ``run:ID`` for the graph of a recorded run. Without ``hardware`` a run's own hardware and durations are taken (the
    measured ones of a measured run); with it, the roofline of that hardware. ``overrides`` are those of
    `hyperoffload_core.hardware.load_hardware`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    policy: Policy
    hardware: str | None = None
    overrides: dict[str, Any] = Field(default_factory=dict)
    policy_version_id: int | None = None
    label: str = ""


class RunRequest(BaseModel):
    """Capture a model, measure it, compile each policy, execute all of them and the ``schedule_files`` interleaved with
    the no-offload step, and record everything. With ``graph_mode`` all of them run in MindSpore's graph mode instead of
    op by op, one after the other.

    ``model`` is as in `CompileRequest`, without graph files; ``run:ID`` captures that run's model again.
    ``link_bandwidth`` is a rate or ``unlimited``. ``policy_version_ids`` names the saved version of each policy.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    policies: tuple[Policy, ...] = ()
    schedule_files: tuple[Path, ...] = ()
    steps: int = Field(default=5, ge=1, le=1000)
    link_bandwidth: str = "unlimited"
    graph_mode: bool = False
    policy_version_ids: tuple[int | None, ...] = ()
    label: str = ""
