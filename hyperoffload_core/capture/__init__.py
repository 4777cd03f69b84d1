"""MindSpore cell -> MindIR -> `CapturedModel`: graph, program and starting values.

`capture` runs MindSpore's own front end (parsing, gradients, optimizer), which takes over a second to import; importing
this package does not import it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyperoffload_core.capture.errors import CaptureError
from hyperoffload_core.capture.source import load_source
from hyperoffload_core.program import CapturedModel

__all__ = ["CaptureError", "capture", "load_source"]


def capture(cell: Any, inputs: Sequence[Any], *, name: str = "", with_values: bool = True) -> CapturedModel:
    """Capture ``cell(*inputs)``, one step of a training cell or of an inference cell.

    ``with_values=False`` leaves out the values storages start with: the model can then be planned and simulated, not
    run. The cell's parameters are copied, never changed. Raises `CaptureError` in one sentence.
    """
    from hyperoffload_core.capture.model import capture_cell

    return capture_cell(cell, inputs, name=name or type(cell).__name__, with_values=with_values)
