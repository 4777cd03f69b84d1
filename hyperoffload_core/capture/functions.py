"""A function as a cell, so that what `mindspore.jit` compiles is captured and run like any cell.

MindSpore inlines the function into the cell, and names its layers after the variables that hold them, as it does for
attributes of a cell. So the cell gets as its own the cells and parameters that the function reaches by its variables.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from mindspore import Parameter, nn

from hyperoffload_core.capture.errors import CaptureError

_DEPTH = 8


class FunctionCell(nn.Cell):
    """``function(*inputs)`` as a cell."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(auto_prefix=False)
        self.function = function

    def construct(self, *inputs):  # type: ignore[no-untyped-def]
        return self.function(*inputs)


def as_cell(target: Any) -> Any:
    """``target`` itself where it is a cell, else a cell of the function, decorated with `mindspore.jit` or not.

    Raises `CaptureError` where it is neither.
    """
    if isinstance(target, nn.Cell):
        return target
    function = plain_function(target)
    cell = FunctionCell(function)
    loose: list[Any] = []
    for name, value in _reached(function, set(), _DEPTH):
        if not isinstance(value, nn.Cell):
            loose.append(value)
        elif not any(value is part for _, part in cell.cells_and_names()):
            cell.insert_child_to_cell(_free_name(cell, name), value)
    cell.loose_parameters = loose
    return cell


def plain_function(target: Any) -> Callable[..., Any]:
    """The function that a decorated one was made from. Raises `CaptureError`."""
    while hasattr(target, "__wrapped__"):
        owner = getattr(target, "__self__", None)
        target = target.__wrapped__
        if owner is not None and isinstance(target, FunctionType):
            target = MethodType(target, owner)
    if not isinstance(target, FunctionType | MethodType):
        raise CaptureError(f"a cell or a function can be given, not {_article(type(target).__name__)}")
    return target


def positional(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call by position, defaults put in. Raises `CaptureError` where they do not fit."""
    name = getattr(function, "__name__", type(function).__name__)
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise CaptureError(f"{name} cannot be called like this: {error}") from error
    bound.apply_defaults()
    if bound.kwargs:
        raise CaptureError(
            f"{name} takes {next(iter(bound.kwargs))!r} by name only; give it as an input by position as well"
        )
    return bound.args


def _reached(value: Any, seen: set[int], depth: int, name: str = "") -> Iterator[tuple[str, Any]]:
    """Cells and parameters, each with the variable that holds it, outermost cells only."""
    if not depth or id(value) in seen or isinstance(value, ModuleType | type | str | bytes | int | float):
        return
    seen.add(id(value))
    if isinstance(value, nn.Cell | Parameter):
        yield name, value
    elif isinstance(value, MethodType):
        yield from _reached(value.__self__, seen, depth, name or "self")
        yield from _reached(value.__func__, seen, depth)
    elif isinstance(value, FunctionType):
        inner = inspect.unwrap(value)
        for variable, held in _variables(inner):
            yield from _reached(held, seen, depth - 1, variable)
    elif isinstance(value, list | tuple | dict):
        for held in value.values() if isinstance(value, dict) else value:
            yield from _reached(held, seen, depth - 1, name)
    elif hasattr(value, "__dict__"):
        for variable, held in vars(value).items():
            yield from _reached(held, seen, depth - 1, variable)


def _variables(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function's own, enclosing and global variables hold, of those its code names."""
    for variable, held in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield variable, held.cell_contents
        except ValueError:  # not assigned yet
            continue
    for variable in _names(function.__code__):
        if variable in function.__globals__:
            yield variable, function.__globals__[variable]
    parameters = inspect.signature(function).parameters.values()
    yield from ((p.name, p.default) for p in parameters if p.default is not p.empty)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _free_name(cell: nn.Cell, name: str) -> str:
    taken = (candidate for candidate in (name, *(f"{name}_{n}" for n in range(2, 1000))))
    return next(candidate for candidate in taken if candidate and not hasattr(cell, candidate))


def _article(word: str) -> str:
    return f"{'an' if word[:1].lower() in 'aeiou' else 'a'} {word}"
