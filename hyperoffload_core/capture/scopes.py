"""Layer paths of ops, corrected where MindSpore names the wrong layer.

MindSpore parses a method once per class, so the ops of ``blocks.7`` that hold no weight often carry the scope of
``blocks.0``, and an op's gradient carries the scope of whichever op of its kind came first. Two things put most of that
right: gradients name the forward op they belong to (``forward_unique_id``), and data only flows forward through a list
of layers. What remains is off by one layer at most: the first ops of a layer, before a weight of it is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from hyperoffload_core.capture.raw import RawCall, RawGraph

GRADIENTS = "Gradients/"


def layer_scopes(raw: RawGraph) -> list[str]:
    """Scope of each call: ``Default/…`` (forward pass, optimizer) or ``Gradients/Default/…`` (backward)."""
    producers: dict[int, int] = {}
    forward: dict[str, list[int]] = {}
    scopes: list[str] = []
    for n, call in enumerate(raw.calls):
        scope = call.domain.rpartition("/")[0]
        feeding = [scopes[producers[s]] for s in call.reads if s in producers]
        if scope.startswith(GRADIENTS):
            gradients = [f.removeprefix(GRADIENTS) for f in feeding if f.startswith(GRADIENTS)]
            # Clones of one parsed method share their id, so there may be one twin per layer.
            twins = forward.get(call.forward_id, [])
            if twins:
                scope = GRADIENTS + scopes[_twin(raw.calls, call, twins, scopes, gradients)]
            else:
                own = "/".join(p for p in scope.removeprefix(GRADIENTS).split("/") if not p.startswith("Grad_"))
                scope = GRADIENTS + _moved_forward(own, gradients)
        else:
            scope = _moved_forward(scope, [f for f in feeding if not f.startswith(GRADIENTS)])
            if call.unique_id:
                forward.setdefault(call.unique_id, []).append(n)
        scopes.append(scope)
        for s in call.writes:
            if raw.storages[s].source == "call":
                producers[s] = n
    return scopes


def _twin(
    calls: Sequence[RawCall], call: RawCall, twins: Sequence[int], scopes: Sequence[str], gradients: Sequence[str]
) -> int:
    """Of the forward calls a gradient may belong to: the one whose data it reads, else the nearest to what feeds it."""
    reads = set(call.reads)

    def nearness(twin: int) -> tuple[int, int]:
        shared = len(reads.intersection(calls[twin].reads)) + len(reads.intersection(calls[twin].writes))
        return shared, max((_common_parts(scopes[twin], g) for g in gradients), default=0)

    return max(twins, key=nearness)


def _common_parts(left: str, right: str) -> int:
    count = 0
    for a, b in zip(left.split("/"), right.split("/"), strict=False):
        if a != b:
            break
        count += 1
    return count


def _moved_forward(scope: str, feeding: Sequence[str]) -> str:
    """The scope with each layer number raised to the highest one among the scopes of what feeds the op."""
    parts = scope.split("/")
    for level, part in enumerate(parts):
        if not part.partition("-")[0].isdigit() or "-" not in part:
            continue
        for other in feeding:
            others = other.split("/")
            if len(others) > level and others[:level] == parts[:level]:
                number = others[level].partition("-")[0]
                if number.isdigit() and int(number) > int(parts[level].partition("-")[0]):
                    parts[level] = others[level]
    return "/".join(parts)
