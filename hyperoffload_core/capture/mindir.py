"""A MindSpore cell through MindSpore's own front end, as a parsed MindIR model."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mindspore as ms
from mindspore import nn
from mindspore.graph.api import _cell_graph_executor
from mindspore.train.mind_ir_pb2 import ModelProto

from hyperoffload_core.capture.errors import CaptureError


@contextmanager
def _debris_elsewhere() -> Iterator[None]:
    """MindSpore writes reports such as ``rank_0/om`` under its own path or the current folder; give it another."""
    before = os.environ.get("MS_OM_PATH")
    with tempfile.TemporaryDirectory(prefix="hyperoffload-capture-") as folder:
        os.environ["MS_OM_PATH"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["MS_OM_PATH"]
            else:
                os.environ["MS_OM_PATH"] = before


@contextmanager
def graph_mode() -> Iterator[None]:
    """MindSpore in graph mode, and afterwards as it was."""
    before = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        yield
    finally:
        ms.set_context(mode=before)


def export_mindir(cell: nn.Cell, inputs: Sequence[Any]) -> Any:
    """Compile ``cell(*inputs)`` and return its MindIR (``ModelProto``, without weights).

    Raises `CaptureError` with the first meaningful line of what MindSpore says, and the user's source line where
    MindSpore names one.
    """
    with _debris_elsewhere(), graph_mode():
        try:
            # MindSpore knows an export again by its phase, in which `set_train` must show.
            phase, _ = _cell_graph_executor.compile(cell, *inputs, phase=f"export.{cell.phase}", do_convert=False)
            data = _cell_graph_executor._get_func_graph_proto(cell, phase, "mind_ir")
        except Exception as error:  # MindSpore raises every kind of exception from its compiler
            raise CaptureError(f"MindSpore cannot compile {type(cell).__name__}: {first_line(error)}") from error
    if not data:
        raise CaptureError(f"MindSpore compiled {type(cell).__name__} but exported no graph")
    model = ModelProto()
    model.ParseFromString(data)
    return model


_SOURCE = re.compile(r'In file (?P<file>[^\s,:]+):(?P<line>\d+)|File "(?P<file2>[^"]+)", line (?P<line2>\d+)')


def first_line(error: BaseException) -> str:
    """The first line of a MindSpore message that is no rule, heading or C++ position, and the source line it names."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines()]
    meaningful = next(
        (line for line in lines if line and not re.match(r"^[-=#*.\s]+$|^- .*:$|^\(?For framework|^mindspore/", line)),
        type(error).__name__,
    )
    positions = [
        (match["file"] or match["file2"], match["line"] or match["line2"])
        for match in _SOURCE.finditer(text)
        if f"{os.sep}mindspore{os.sep}" not in (match["file"] or match["file2"])
    ]
    if positions:
        file, line = positions[0]
        return f"{meaningful} ({Path(file).name}:{line})"
    return meaningful
