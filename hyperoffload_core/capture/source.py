"""The user's own model: ``FILE.py:FUNCTION`` returns a cell, or a function as `mindspore.jit` takes it, and inputs."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from typing import Any

from hyperoffload_core.capture.errors import CaptureError


def load_source(reference: str) -> tuple[Any, tuple[Any, ...]]:
    """The cell and its inputs from ``FILE.py:FUNCTION``.

    The file's folder comes first on ``sys.path`` and the file is imported under its own name, so that it may import
    its neighbours. The function takes no arguments and returns ``(cell, inputs)`` or ``{"cell": …, "inputs": …}``;
    in the cell's place may be a function, which comes as a cell of it (`capture.functions.as_cell`). Raises
    `CaptureError` in one sentence for a missing file or function, a function that raises, or a wrong result.
    """
    file_name, colon, function_name = reference.rpartition(":")
    if not colon or not file_name or not function_name.isidentifier():
        raise CaptureError(f"{reference!r} names no model; write FILE.py:FUNCTION")
    path = Path(file_name).resolve()
    if not path.is_file():
        raise CaptureError(f"{file_name}: no such file")
    module = _import_file(path, file_name)
    function = getattr(module, function_name, None)
    if not callable(function):
        raise CaptureError(f"{file_name} has no function {function_name!r}{_functions(module)}")
    if needed := _needed_arguments(function):
        raise CaptureError(
            f"{reference} takes arguments ({', '.join(needed)}); name a function that takes none and returns the step "
            "and its inputs: return (step, inputs)"
        )
    try:
        result = function()
    except (Exception, SystemExit) as error:  # user code may raise anything
        raise CaptureError(f"{reference} raised {describe(error, path)}") from error
    return _cell_and_inputs(result, reference)


def _import_file(path: Path, shown: str) -> Any:
    folder = str(path.parent)
    if folder in sys.path:
        sys.path.remove(folder)
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise CaptureError(f"{shown} is no Python file; its name must end with .py")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if before is None:
            del sys.modules[path.stem]
        else:
            sys.modules[path.stem] = before
        raise CaptureError(f"{shown} cannot be imported: {describe(error, path)}") from error
    return module


def describe(error: BaseException, path: Path) -> str:
    """Kind and first line of an exception, with the line of the user's file it came from."""
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == str(path):
        line = error.lineno
    text = next((part.strip() for part in str(error).splitlines() if part.strip()), "")
    return f"{type(error).__name__}{f': {text}' if text else ''}{f' (line {line})' if line else ''}"


def _needed_arguments(function: Any) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some callables tell none
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in variable]


def _functions(module: Any) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and callable(value)
        and not isinstance(value, type)
        and getattr(value, "__module__", "") == module.__name__
    ]
    return f"; it has {', '.join(sorted(names))}" if names else ""


def _cell_and_inputs(result: Any, reference: str) -> tuple[Any, tuple[Any, ...]]:
    from mindspore import nn

    from hyperoffload_core.capture.functions import as_cell

    if isinstance(result, dict) and {"cell", "inputs"} <= result.keys():
        result = (result["cell"], result["inputs"])
    is_pair = isinstance(result, tuple) and len(result) == 2
    if not (is_pair and (isinstance(result[0], nn.Cell) or inspect.isroutine(result[0]))):
        raise CaptureError(
            f"{reference} returned {_shown(result)}; return (cell, inputs): a mindspore.nn.Cell, or a function as "
            "mindspore.jit takes it, and a tuple of its inputs"
        )
    target, inputs = result
    if not isinstance(inputs, tuple | list):
        inputs = (inputs,)
    return as_cell(target), tuple(inputs)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)} ({', '.join(type(v).__name__ for v in value)})"
    return f"a value of type {type(value).__name__}"
