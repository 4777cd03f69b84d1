"""Running a worker (`hyperoffload_core.worker`) and reading its events as they come."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from hyperoffload_core.errors import UserError
from hyperoffload_core.runtime.environment import EXECUTION_ENVIRONMENT
from hyperoffload_core.spool import Event, SpoolReader
from hyperoffload_core.worker import CANCEL_FILE, WorkerRequest

GRACE_S = 4.0
_POLL_S = 0.2


class WorkerError(UserError):
    """What the worker said was wrong with the model or the request, in its one sentence."""


class WorkerCrashError(RuntimeError):
    """The worker ended without saying why, or because of a fault of ours; ``log`` is the end of its output."""

    def __init__(self, message: str, log: str) -> None:
        super().__init__(message)
        self.log = log


class Cancelled(Exception):  # noqa: N818 - not a fault
    """The work was stopped because someone asked for it."""


def worker_events(request: WorkerRequest, cancelled: Callable[[], bool]) -> Iterator[Event]:
    """Events of one worker, in order, until it has finished.

    The worker is asked to stop when ``cancelled()`` turns true, or when the caller stops reading, and killed when it
    does not stop within seconds. Raises `WorkerError`, `WorkerCrashError` or `Cancelled`.
    """
    with tempfile.TemporaryDirectory(prefix="hyperoffload-") as folder:
        spool = Path(folder)
        log = spool / "worker.log"
        (spool / "request.json").write_text(request.model_dump_json(by_alias=True))
        with _started(spool, log) as process:
            yield from _read(process, spool, log, cancelled)


@contextmanager
def _started(spool: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    # -P: the working directory is not searched for modules, as with `python FILE.py`; the model's own folder is.
    command = [sys.executable, "-P", "-m", "hyperoffload_core.worker", str(spool)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, env=_environment(spool)
        )
    try:
        yield process
    finally:
        _stop(process, spool)


def _environment(spool: Path) -> dict[str, str]:
    # MindSpore warns about much on CPU that nobody can act on; errors still come through.
    quiet = {"GLOG_v": "3"} | dict(EXECUTION_ENVIRONMENT) | dict(os.environ)
    # Temporary files of a worker that is killed go with the spool folder.
    return quiet | {"TMPDIR": str(spool)}


def _read(process: subprocess.Popen[bytes], spool: Path, log: Path, cancelled: Callable[[], bool]) -> Iterator[Event]:
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    assert process.stdout is not None
    threading.Thread(target=_pump, args=(process.stdout, lines), daemon=True).start()
    reader = SpoolReader(spool)
    asked_at: float | None = None
    while True:
        try:
            line = lines.get(timeout=_POLL_S)
        except queue.Empty:
            line = b""
        if asked_at is None and cancelled():
            (spool / CANCEL_FILE).touch()
            asked_at = time.monotonic()
        if asked_at is not None and (line is None or time.monotonic() - asked_at > GRACE_S):
            raise Cancelled
        if line is None:
            raise _how_it_ended(process, log)
        if not line or asked_at is not None:
            continue
        said = json.loads(line)
        if said["event"] == "Finished":
            return
        if said["event"] == "Failed":
            if said["user"]:
                raise WorkerError(said["message"])
            raise WorkerCrashError(said["message"], _tail(log))
        yield reader(said)


def _pump(stream: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _stop(process: subprocess.Popen[bytes], spool: Path) -> None:
    """End the worker: it stops by itself when its input closes; one that does not is terminated, then killed."""
    with suppress(OSError):
        (spool / CANCEL_FILE).touch()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    for end in (lambda: None, process.terminate, process.kill):
        end()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S / 2)
            break
    if process.stdout is not None:
        process.stdout.close()


def _how_it_ended(process: subprocess.Popen[bytes], log: Path) -> WorkerError | WorkerCrashError:
    code = process.wait()
    if code == -signal.SIGKILL:
        return WorkerError(
            "the process that runs the model was killed, probably because the machine has too little memory"
        )
    if code == -signal.SIGTERM:
        return WorkerError("the process that runs the model was terminated from outside")
    if code < 0:
        words = f"the process that runs the model was ended by {signal.Signals(-code).name}"
    else:
        words = f"the process that runs the model ended with code {code} and gave no reason"
    return WorkerCrashError(words, _tail(log))


def _tail(log: Path, lines: int = 20) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
