"""Classes, phases and names: what a person reads about ops and storages, and what rules match."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from hyperoffload_core.capture.raw import RawGraph
from hyperoffload_core.capture.scopes import GRADIENTS
from hyperoffload_core.ir import Phase, TensorClass


@dataclass(frozen=True)
class Optimizers:
    """What the cell says about its optimizers: their scope paths, the weights they update and their own parameters."""

    paths: tuple[tuple[str, ...], ...]
    weights: frozenset[str]
    states: frozenset[str]


def find_optimizers(cell: Any) -> Optimizers:
    """Every optimizer inside the cell (``mindspore.nn`` and ``mindspore.mint.optim`` alike)."""
    from mindspore import nn
    from mindspore.experimental.optim import Optimizer

    paths, weights, states = [], set(), set()
    for name, part in cell.cells_and_names():
        if isinstance(part, nn.Optimizer | Optimizer):
            paths.append(tuple(name.split(".")))
            own = {p.name for p in part.parameters}
            weights |= own
            states |= all_parameters(part).keys() - own
    return Optimizers(tuple(paths), frozenset(weights), frozenset(states))


def all_parameters(cell: Any) -> dict[str, Any]:
    """Parameters by name, those too that a cell keeps in plain lists and dictionaries (``mint.optim`` does)."""
    from mindspore import Parameter

    found: dict[str, Any] = {}

    def visit(value: Any, depth: int) -> None:
        if isinstance(value, Parameter):
            found.setdefault(value.name, value)
        elif depth and isinstance(value, list | tuple):
            for item in value:
                visit(item, depth - 1)
        elif depth and isinstance(value, dict):
            for item in value.values():
                visit(item, depth - 1)

    for parameter in cell.get_parameters():
        visit(parameter, 0)
    for _, part in cell.cells_and_names():
        visit(vars(part), 4)
    return found


def layer_path(scope: str) -> tuple[str, ...]:
    """Attribute names along a scope: ``Default/network-Net/blocks-CellList/0-Block`` is ``network, blocks, 0``."""
    parts = [p for p in scope.split("/") if p not in ("Gradients", "Default", "")]
    return tuple(p.partition("-")[0] for p in parts if not p.startswith("Grad_"))


def phases(raw: RawGraph, optimizers: Optimizers, inference: Phase = "decode") -> list[Phase]:
    """Phase of each call: its scope tells; an in-place update of a weight by a gradient is the optimizer's.

    A step that trains nothing and updates key/value caches is of the phase ``inference`` as a whole.
    """
    training = bool(optimizers.paths) or any(c.domain.startswith(GRADIENTS) for c in raw.calls)
    if not training and (inference == "prefill" or cache_storages(raw, optimizers)):
        return [inference] * len(raw.calls)
    result: list[Phase] = []
    backward_results: set[int] = set()
    for call in raw.calls:
        path = layer_path(call.domain.rpartition("/")[0])
        in_optimizer = any(path[: len(p)] == p for p in optimizers.paths) and not call.domain.startswith(GRADIENTS)
        updates = any(raw.storages[s].source == "parameter" for s in call.writes) and backward_results & set(call.reads)
        phase: Phase
        if training and (in_optimizer or updates):
            phase = "optimizer"
        elif call.domain.startswith(GRADIENTS):
            phase = "backward"
        else:
            phase = "forward"
        if phase != "forward":
            backward_results.update(call.writes)
        result.append(phase)
    return result


def inference_phase(cell: Any) -> Phase:
    """Prefill for a cell with MindSpore's flag ``is_first_iteration``, as its language models set it; else decode."""
    return "prefill" if cell.get_flags().get("is_first_iteration") else "decode"


def cache_storages(raw: RawGraph, optimizers: Optimizers) -> set[int]:
    """Parameters with "cache" in their name that the step updates and no optimizer has."""
    written = {s for call in raw.calls for s in call.writes}
    trained = optimizers.weights | optimizers.states
    return {
        number
        for number, storage in enumerate(raw.storages)
        if storage.source == "parameter"
        and number in written
        and storage.name not in trained
        and "cache" in storage.name.lower()
    }


def classes(raw: RawGraph, call_phases: list[Phase], optimizers: Optimizers) -> list[TensorClass]:
    """Class of each storage."""
    caches = cache_storages(raw, optimizers)
    returned = {view.storage for view in raw.results}
    result: list[TensorClass] = []
    for number, storage in enumerate(raw.storages):
        if storage.source == "input":
            result.append("input")
        elif storage.source == "constant":
            result.append("constant")
        elif storage.source == "parameter":
            if number in caches:
                result.append("kv_cache")
            else:
                result.append("optimizer_state" if storage.name in optimizers.states else "weight")
        elif number in returned:
            result.append("output")
        else:
            result.append("gradient" if call_phases[storage.call] in ("backward", "optimizer") else "activation")
    return result


def op_names(raw: RawGraph, scopes: list[str], call_phases: list[Phase], optimizers: Optimizers) -> list[str]:
    """Short unique names such as ``decoder.blocks.0.attention.query/MatMul``; gradients start with ``gradient/``.

    An optimizer's update is named after the parameter it updates. The second op of a name gets ``#2`` and so on.
    """
    names = []
    for call, scope, phase in zip(raw.calls, scopes, call_phases, strict=True):
        path = [p for p in layer_path(scope) if p != "network"]
        updated = [raw.storages[s].name for s in call.writes if raw.storages[s].source == "parameter"]
        weights = [n for n in updated if n in optimizers.weights] or updated
        if phase == "optimizer" and weights:
            path = [*path, weights[0]]
        head = "gradient/" if phase == "backward" else ""
        names.append(f"{head}{'.'.join(path)}{'/' if path else ''}{call.primitive}")
    return unique_names(names)


def storage_names(raw: RawGraph, names: list[str]) -> list[str]:
    """The parameter's or input's name; else the producing op's, with ``:k`` for one of several results."""
    result = []
    for storage in raw.storages:
        if storage.source == "call":
            several = len(raw.calls[storage.call].outputs) > 1
            result.append(f"{names[storage.call]}{f':{storage.result}' if several else ''}")
        elif storage.source == "constant":
            result.append(f"constant {'x'.join(map(str, storage.shape)) or 'scalar'} {storage.dtype}")
        else:
            result.append(re.sub(r"^inputs?(?=\d)", "input", storage.name))
    return unique_names(result)


def unique_names(names: list[str]) -> list[str]:
    """The names, where the second of a kind becomes ``name#2`` and so on."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return result
