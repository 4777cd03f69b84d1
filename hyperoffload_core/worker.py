"""A fresh interpreter that captures a model and runs a session: ``python -P -m hyperoffload_core.worker FOLDER``.

It imports nothing of ours but this package, so that whatever stands beside the user's model is the user's. The request
is ``FOLDER/request.json``; results go into the folder (`hyperoffload_core.spool`), each announced by a JSON line on
standard output, the last line being ``Finished`` or ``Failed``. What the model itself prints goes to standard error.
The worker stops when the file ``FOLDER/cancel`` appears, and ends at once when its standard input closes; it removes
the folder then, as a parent that was killed cannot.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from hyperoffload_core.errors import UserError
from hyperoffload_core.graphfile import GraphFile
from hyperoffload_core.policy import Policy
from hyperoffload_core.spool import Captured, Progress, SpoolWriter

CANCEL_FILE = "cancel"


class WorkerRequest(BaseModel):
    """``capture`` yields the graph (no weights are made); ``session`` runs `hyperoffload_core.session.run_session`;
    ``emit`` writes the model with the one schedule file to ``output`` (`hyperoffload_core.mindspore_plugin.emit`).

    ``model`` is a workload's name or ``FILE.py:FUNCTION``; ``schedule_files`` are run beside what ``policies`` give,
    all of them op by op or, with ``graph_mode``, in MindSpore's graph mode.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: Literal["capture", "session", "emit"]
    model: str
    policies: tuple[Policy, ...] = ()
    schedule_files: tuple[Path, ...] = ()
    steps: int = 5
    link_bandwidth: str = "unlimited"
    graph_mode: bool = False
    output: Path | None = None
    weights: bool = True


def main(folder: Path) -> None:
    """Do what the request in ``folder`` asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which asks us to stop
    say = _announcer()
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    try:
        _work(
            WorkerRequest.model_validate_json((folder / "request.json").read_text()), folder, SpoolWriter(folder, say)
        )
    except UserError as error:
        say(json.dumps({"event": "Failed", "message": str(error), "user": True}))
    except Exception as error:
        traceback.print_exc()
        message = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        say(json.dumps({"event": "Failed", "message": message, "user": False}))
    else:
        say(json.dumps({"event": "Finished"}))


def _announcer() -> Callable[[str], None]:
    """Writes lines to the parent. Whatever else this process prints from now on goes to standard error."""
    stream = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return lambda line: print(line, file=stream)


def _end_with_parent(folder: Path) -> None:
    os.read(0, 1)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _work(request: WorkerRequest, folder: Path, report: SpoolWriter) -> None:
    def cancelled() -> bool:
        return (folder / CANCEL_FILE).exists()

    began = time.monotonic_ns()
    report(Progress(0, 0, f"capturing {request.model}"))
    if request.task == "emit":
        assert request.output is not None
        from hyperoffload_core.mindspore_plugin.emit import emit_file

        (schedule,) = request.schedule_files
        report(emit_file(request.model, schedule, request.output, weights=request.weights))
        return
    if request.graph_mode:
        # Before the long work: what is missing is said at once, and the first time this compiles for some seconds.
        from hyperoffload_core.mindspore_plugin.passes import prepare

        prepare()
    from hyperoffload_core.session import capture_model, run_session

    model = capture_model(request.model, with_values=request.task == "session")
    report(Captured(GraphFile(model.captured.graph, {"model": request.model}), time.monotonic_ns() - began))
    if request.task == "session":
        run_session(
            model,
            request.policies,
            steps=request.steps,
            link_bandwidth=request.link_bandwidth,
            report=report,
            cancelled=cancelled,
            schedule_files=request.schedule_files,
            graph_mode=request.graph_mode,
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
