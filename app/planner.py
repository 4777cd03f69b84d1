"""A process that stays warm and predicts for pages: one ask after the other, the newest of each page only.

Compiling holds the interpreter's lock, so it is not done in the web process. The planner's process (`hyperoffload
answer`, in `app.answering`) starts at the first ask, keeps the last graphs and all its answers, and ends when its pipe
closes (with the server) or after some idle minutes. An ask that a page has replaced is cancelled; a process that does
not listen is killed and started again.
"""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from app.predicting import Prediction
from hyperoffload_core.policy import Policy

LAUNCHER = Path(__file__).resolve().parent.parent / "hyperoffload.py"
IDLE_S = 600.0
"""After so long without an ask the process ends."""
GRACE_S = 1.0
"""A process that goes on with a cancelled ask for so long is killed."""
SETTLE_S = 0.03
"""How long an ask waits for a newer one of the same page: a key is held down."""
_PAGES = 64
"""Pages whose newest ask is kept."""


@dataclass(frozen=True)
class Ask:
    """Policies to predict, one after the other, for a run (``run:ID``) on its own or another hardware."""

    model: str
    policies: tuple[Policy, ...]
    hardware: str | None = None
    overrides: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> str:
        """Equal for equal asks."""
        policies = "\n".join(p.model_dump_json() for p in self.policies)
        return hashlib.sha256(f"{self.model}\n{self.hardware}\n{self.overrides}\n{policies}".encode()).hexdigest()


@dataclass
class Ticket:
    """What has come of an ask so far: ``predictions`` in order; ``state`` waiting, done, replaced, or failed (then
    ``problem`` says why in one sentence). ``elapsed_s`` counts from the ask to the end."""

    ask: Ask
    predictions: list[Prediction] = field(default_factory=list)
    state: str = "waiting"
    problem: str = ""
    asked_at: float = field(default_factory=time.monotonic)
    elapsed_s: float = 0.0
    watched_at: float = field(default_factory=time.monotonic)
    ended: threading.Event = field(default_factory=threading.Event)

    def wait(self, seconds: float) -> bool:
        """Whether the ask has ended, after so many seconds at most."""
        self.watched_at = time.monotonic()
        return self.ended.wait(seconds)

    def end(self, state: str, problem: str = "") -> None:
        if not self.ended.is_set():
            self.state, self.problem = state, problem
            self.elapsed_s = time.monotonic() - self.asked_at
            self.ended.set()


class Planner:
    """Answers asks of any number of pages in turn. Methods may be called from any thread.

    With ``unwatched_s`` an ask that nobody has waited for or looked at for so long is dropped (its page was closed).
    """

    def __init__(self, database_path: Path, *, niceness: int = 0, unwatched_s: float | None = None) -> None:
        self._path, self._niceness, self._unwatched_s = database_path, niceness, unwatched_s
        self._lock = threading.Condition()
        self._waiting: OrderedDict[str, Ticket] = OrderedDict()
        self._newest: OrderedDict[str, Ticket] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._closed = False

    def ask(self, page: str, ask: Ask) -> Ticket:
        """Ask for a page, in place of what it asked before; asking the same again changes nothing."""
        ticket = Ticket(ask)
        with self._lock:
            before = self._newest.get(page)
            if before is not None and before.ask == ask and before.state in ("waiting", "done"):
                return before
            self._drop(page)
            self._newest[page] = self._waiting[page] = ticket
            for other in list(self._newest)[: max(0, len(self._newest) - _PAGES)]:
                self._drop(other)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
            self._lock.notify()
        return ticket

    def ticket(self, page: str) -> Ticket | None:
        """The newest ask of a page."""
        with self._lock:
            return self._newest.get(page)

    def cancel(self, page: str) -> None:
        """Nobody wants the page's ask any more."""
        with self._lock:
            self._drop(page)

    @property
    def process_id(self) -> int | None:
        """The process that predicts, None before the first ask."""
        return None if self._process is None else self._process.pid

    def close(self) -> None:
        """End the process; asks are answered no more."""
        with self._lock:
            self._closed = True
            for page in list(self._newest):
                self._drop(page)
            self._lock.notify()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _drop(self, page: str) -> None:
        self._waiting.pop(page, None)
        if (old := self._newest.pop(page, None)) is not None:
            old.end("replaced")

    def _work(self) -> None:
        """The dispatcher's thread: owns the process and the pipe; ends when nothing was asked for a while."""
        while (ticket := self._next()) is not None:
            try:
                self._answer(ticket)
            except (EOFError, OSError) as error:
                self._stop()
                ticket.end("failed", f"the process that predicts ended ({type(error).__name__}); change anything")
        self._stop()

    def _next(self) -> Ticket | None:
        with self._lock:
            while True:
                if self._closed or not self._lock.wait_for(lambda: self._waiting or self._closed, IDLE_S):
                    self._thread = None
                    return None
                if not self._waiting:
                    continue
                page, ticket = next(iter(self._waiting.items()))
                left = ticket.asked_at + SETTLE_S - time.monotonic()
                if left <= 0:
                    del self._waiting[page]
                    return ticket
                self._lock.wait(left)

    def _answer(self, ticket: Ticket) -> None:
        pipe = self._started()
        pipe.send(ticket.ask)
        asked_to_stop: float | None = None
        while True:
            if pipe.poll(0.05):
                said = pipe.recv()
                if isinstance(said, Prediction):
                    ticket.predictions.append(said)
                    continue
                ticket.end("done" if said is None else "failed", said or "")
                return
            now = time.monotonic()
            if self._unwatched_s is not None and now - ticket.watched_at > self._unwatched_s:
                ticket.end("replaced")
            if ticket.ended.is_set() and asked_to_stop is None:
                pipe.send(None)
                asked_to_stop = now
            if asked_to_stop is not None and now - asked_to_stop > GRACE_S:
                self._stop()
                return

    def _started(self) -> Connection:
        if self._pipe is None or self._process is None or self._process.poll() is not None:
            self._stop()
            ours, theirs = socket.socketpair()
            command = [sys.executable, "-P", str(LAUNCHER), "answer", str(theirs.fileno())]
            command += ["--database", str(self._path), "--niceness", str(self._niceness)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
            theirs.close()
            self._pipe = Connection(ours.detach())
        return self._pipe

    def _stop(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def ask_of(model: str, policies: Sequence[Policy], hardware: str | None, overrides: dict[str, Any]) -> Ask:
    """An ask from the fields of a `CompileRequest`."""
    return Ask(model, tuple(policies), hardware, tuple(sorted(overrides.items())))
