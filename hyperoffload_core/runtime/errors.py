"""What can go wrong while a schedule runs."""

from __future__ import annotations


class ExecutionError(RuntimeError):
    """A schedule that could not be run to the end; the message is one sentence naming the op or transfer."""


class ExecutionCancelledError(ExecutionError):
    """The caller asked to stop between two ops."""
