"""What a worker hands to its parent: each result one file in a folder, each announced by one JSON line when whole.

Both sides are here. The parent reads every file at once and removes it, so a long session fills no disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from hyperoffload_core.graphfile import GraphFile, read_graph, write_graph
from hyperoffload_core.recording import OpEvents, Profile, ProfileKind, StepNumbers, StorageLifetimes, TransferEvents
from hyperoffload_core.schedule import Schedule, read_schedule, write_schedule

# The step without offload, among policies that are named by their place in the request.
NO_OFFLOAD = -1
# Results reach the parent in pieces of so many steps, so that a session killed late loses little.
CHUNK_STEPS = 5

_PARTS = {"ops": OpEvents, "transfers": TransferEvents, "lifetimes": StorageLifetimes, "steps": StepNumbers}


@dataclass(frozen=True)
class Progress:
    """``done`` of ``total`` pieces of the stage ``message`` names."""

    done: int
    total: int
    message: str


@dataclass(frozen=True)
class Captured:
    """The graph of the model; ``capture_ns`` is what capturing took."""

    content: GraphFile
    capture_ns: int


@dataclass(frozen=True)
class Compiled:
    """The schedule of policy ``policy`` (its place in the request; -1 is the no-offload step)."""

    policy: int
    schedule: Schedule
    compile_ns: int


@dataclass(frozen=True)
class Recorded:
    """Some steps of a schedule as measured, or one as predicted with the durations of the same session."""

    policy: int
    profile: Profile


@dataclass(frozen=True)
class Checked:
    """What was found when everything had run. ``bit_identical[policy]`` compares results and parameters with
    MindSpore's own graph-mode run of the same steps. ``note`` says where that could not be run (then with the step
    without offload), and which random ops of the graph make results differ."""

    bit_identical: dict[int, bool | None]
    note: str = ""


@dataclass(frozen=True)
class Emitted:
    """A MindIR file was written: its size, whether the parameters' values are in it, its cache operators by name,
    storages that stay on the device with the reason, and parameters whose home is the pool."""

    bytes: int
    weights: bool
    operators: dict[str, int]
    stays: dict[str, str]
    in_pool: tuple[str, ...]


Event = Progress | Captured | Compiled | Recorded | Checked | Emitted


@dataclass
class SpoolWriter:
    """Writes events into ``folder`` and announces each through ``say`` (one line of JSON)."""

    folder: Path
    say: Callable[[str], None]
    _count: int = field(default=0, init=False)

    def __call__(self, event: Event) -> None:
        line: dict[str, Any] = {"event": type(event).__name__}
        if isinstance(event, Progress | Checked | Emitted):
            line |= asdict(event)
        elif isinstance(event, Captured):
            write_graph(event.content, self._next(line, "graph.json"))
            line["capture_ns"] = event.capture_ns
        elif isinstance(event, Compiled):
            write_schedule(event.schedule, self._next(line, "schedule.json"))
            line |= {"policy": event.policy, "compile_ns": event.compile_ns}
        else:
            line["policy"] = event.policy
            _write_profile(event.profile, self._next(line, "profile.npz"))
        self.say(json.dumps(line))

    def _next(self, line: dict[str, Any], ending: str) -> Path:
        self._count += 1
        line["file"] = f"{self._count:04d}.{ending}"
        return self.folder / str(line["file"])


@dataclass
class SpoolReader:
    """Turns announced lines back into events; a profile refers to the schedule compiled before it."""

    folder: Path
    _schedules: dict[int, Schedule] = field(default_factory=dict, init=False)

    def __call__(self, line: dict[str, Any]) -> Event:
        kind = line["event"]
        if kind == "Progress":
            return Progress(line["done"], line["total"], line["message"])
        if kind == "Checked":
            return Checked({int(k): v for k, v in line["bit_identical"].items()}, line["note"])
        if kind == "Emitted":
            said = {name: line[name] for name in ("bytes", "weights", "operators", "stays")}
            return Emitted(**said, in_pool=tuple(line["in_pool"]))
        path = self.folder / line["file"]
        try:
            if kind == "Captured":
                return Captured(read_graph(path), line["capture_ns"])
            if kind == "Compiled":
                schedule = self._schedules[line["policy"]] = read_schedule(path)
                return Compiled(line["policy"], schedule, line["compile_ns"])
            return Recorded(line["policy"], _read_profile(path, self._schedules[line["policy"]]))
        finally:
            path.unlink(missing_ok=True)


def _write_profile(profile: Profile, path: Path) -> None:
    arrays = {
        f"{part}.{f.name}": getattr(getattr(profile, part), f.name)
        for part, kind in _PARTS.items()
        for f in fields(kind)
    }
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        np.savez(
            file,
            kind=np.array(profile.kind),
            conditions=np.array(profile.conditions),
            losses=np.array(profile.losses, dtype=np.float64),
            **arrays,
        )
    partial.replace(path)


def _read_profile(path: Path, schedule: Schedule) -> Profile:
    with np.load(path, allow_pickle=False) as arrays:
        kind: ProfileKind = "measured" if str(arrays["kind"]) == "measured" else "predicted"
        parts: dict[str, Any] = {
            part: columns(**{f.name: arrays[f"{part}.{f.name}"] for f in fields(columns)})
            for part, columns in _PARTS.items()
        }
        return Profile(
            kind=kind,
            schedule=schedule,
            conditions=str(arrays["conditions"]),
            losses=tuple(arrays["losses"].tolist()),
            **parts,
        )
