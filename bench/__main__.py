"""Measurements, one after the other, into docs/benchmarks.md: `make bench` runs all, `python -m bench pack` one.

Each section is replaced as soon as it is measured; the others stay as they are. Give it a quiet machine: what else runs
on the same cores shows in the numbers.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from textwrap import fill

from hyperoffload_core.runtime.environment import EXECUTION_ENVIRONMENT

DOCS = Path(__file__).parent.parent / "docs"
OUTPUT = DOCS / "benchmarks.md"


@dataclass(frozen=True)
class Section:
    """One measurement: a module of this folder with its arguments, and what its numbers mean, in Markdown."""

    title: str
    command: str
    words: str

    @property
    def name(self) -> str:
        return self.command.split()[0].removeprefix("bench.")


SECTIONS = (
    Section(
        "The demo model, measured",
        "bench.demo",
        "A real training step of the demo's model, executed here under two memory limits beside the step without "
        "offload, in turn. Times are medians of ten steps; copies are paced to the demo's default link. *Planned* "
        "and *predicted* are what the schedule said with op durations of the same session.",
    ),
    Section(
        "What recording costs",
        "bench.recorder_overhead",
        "Steps with and without the recorder in turn, nothing else different; then the recorder's own "
        "instructions alone, as a noisy machine moves whole steps by more than they take.",
    ),
    Section(
        "Inside MindSpore: graph mode under a schedule, measured",
        "bench.graph_mode",
        "MindSpore's own graph mode, plain and with a schedule attached, each in a fresh process, copies paced to "
        "1 GB/s each way, the pool in a file. *Waited* is how long ops waited for transfers and *predicted ms* how "
        "long by the schedule; *predicted MiB* is the live peak without offload less that of the schedule; *every op "
        "recorded* is what marks behind all ops add to the step. MindSpore computes on all cores here, so in the first "
        "tables every copy takes a core from it for a while, where a device has copy engines beside its compute cores. "
        "The last table has what a device has: all of MindSpore's threads are on one core, in the plain graph too, and "
        "the copy threads on another, which does nothing else.",
    ),
    Section(
        "Every strategy on hardware that is not here, predicted",
        "bench.compile --csv docs/benchmarks-schedules.csv",
        "Predicted: op durations come from the roofline of the hardware named, transfers from its links, limits "
        "are shares of the live peak without offload. Every schedule passed the verifier.",
    ),
    Section(
        "Compile time and memory against the size of the graph",
        "bench.scaling --picture docs/images/scaling.svg",
        "Made-up training steps, strategy `hyperoffload` at effort normal, from the rules to the verifier, each in a "
        "fresh process; first where links have time to spare (which is drawn), then where they decide how long the "
        "step takes. *Growth* is the exponent of time over ops from one row to the next; memory is the highest "
        "resident size, interpreter and graph included.",
    ),
    Section(
        "Small graphs against the proved optimum",
        "bench.optimum",
        "The gap is how much longer the step of `hyperoffload` is than the shortest step there is, on made-up "
        "graphs of up to some ten ops whose optimum strategy `optimal` proved. All times are predicted.",
    ),
    Section(
        "Address assignment",
        "bench.pack",
        "MiniMalloc's hard problems, within the capacity they are named after and, where that is not the least "
        "possible, as low as found in a minute each; then as many blocks as schedules of large graphs have. "
        "Fragmentation is the height above the most bytes that are live at once.",
    ),
    Section(
        "The database",
        "bench.database",
        "Writing and reading a made-up run of 1.1 million events in SQLite, and what exports cost. A window is "
        "what the timeline asks for: a thousandth of a step, or all of it.",
    ),
    Section(
        "Predictions while tuning",
        "bench.preview",
        "The policy or the hardware of LLaMA-3-8B's training step is changed on the Tune page, strategy `hyperoffload` "
        "on ascend-910c; the time until the page shows the prediction, in a headless browser. Each change is made "
        "once, as an answer that is known comes at once. *Predicting* is the page's own number: from its ask to the "
        "answer of the process that predicts.",
    ),
    Section(
        "The dashboard in a browser",
        "bench.dashboard",
        "A headless browser on made-up runs. *Usable* is when the frame with the drawn curve and lanes, or the first "
        "rows, has been shown and the page waits for input again: in a browser that has shown such a page before, as "
        "people open pages all day, and in one that has nothing of the dashboard; both in a tab that stands ready, as "
        "making one is the browser's work. The server's share is from the request to the first byte of its answer; "
        "zoom and pan are keys pressed on the timeline, until the frame with the answer.",
    ),
)
HEAD = "# Benchmarks\n\nWritten by `make bench`. Each section is the output of one command."


def main() -> None:
    wanted = sys.argv[1:]
    names = [section.name for section in SECTIONS]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        sys.exit(f"there is no measurement {unknown[0]!r}; they are {', '.join(names)}")
    for section in SECTIONS:
        if wanted and section.name not in wanted:
            continue
        print(f"== {section.command}", flush=True)
        found = _measured(section.command)
        print(found, flush=True)
        before = measured_before(OUTPUT.read_text()) if OUTPUT.exists() else {}
        OUTPUT.write_text(report({**before, section.title: found}))
    print(f"written to {OUTPUT}")


def _measured(command: str) -> str:
    environment = dict(EXECUTION_ENVIRONMENT) | dict(os.environ) | {"GLOG_v": "3"}
    run = subprocess.run(
        [sys.executable, "-m", *command.split()],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=environment,
        cwd=DOCS.parent,
    )
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    body = run.stdout.strip()
    shown = body if "|--" in body else f"```\n{body}\n```"
    return f"`python -m {command}` on {date.today().isoformat()}: {machine}\n\n{shown}"


def report(measured: Mapping[str, str]) -> str:
    """The whole file: what was measured, by title of its section, each below the section's words."""
    bodies = [f"## {s.title}\n\n{fill(s.words, 120)}\n\n{measured[s.title]}" for s in SECTIONS if s.title in measured]
    return "\n\n".join([HEAD, *bodies]) + "\n"


def measured_before(text: str) -> dict[str, str]:
    """What the file holds of each section, by title, without its words."""
    parts = [part.partition("\n") for part in text.split("\n## ")[1:]]
    return {title: body[body.index("`python -m ") :].strip() for title, _, body in parts}


if __name__ == "__main__":
    main()
