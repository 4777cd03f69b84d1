"""What a MindSpore primitive does beside computing: which arguments it writes, whether it has hidden state, its flops.

Nothing here lists the in-place ops of one demo: MindSpore's primitive classes say which arguments they write
(``sig_rw.RW_WRITE`` in ``__mindspore_signature__``). The signature objects cannot be read from Python, so the class
statement is.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import linecache
from collections.abc import Mapping
from functools import cache
from math import prod
from typing import Any

# No kernel runs for these: the result is the argument's bytes under another shape.
RESHAPES = frozenset(
    ("Reshape", "ExpandDims", "Squeeze", "Flatten", "FlattenExt", "View", "Unsqueeze", "ReshapeView", "ExpandDimsView")
)
# MindSpore's own cache operators, with kernels for Ascend only: they move a tensor between tiers and compute nothing.
CACHE_OPERATORS = ("CopyToHost", "CopyToDevice", "UpdateToRemote", "UpdateToDevice", "Detach")
# Where the signature is wrong: it leaves out what the C++ inference knows, or (BatchNorm) marks gamma and beta as well,
# which are only read. Argument positions.
_CORRECTED_WRITES: Mapping[str, tuple[int, ...]] = {
    "BatchNorm": (3, 4),
    "SGD": (0, 3, 5),
    "ApplyRMSProp": (0, 1, 2),
    "ApplyCenteredRMSProp": (0, 1, 2, 3),
}
# Writes without reading what was there.
OVERWRITES = frozenset(("Assign", "InplaceCopy", "InplaceZero", "InplaceFillScalar", "InplaceFillTensor"))

# These copy rows into or out of a table and compute nothing, however large the table.
_ROW_COPIES = frozenset(
    ("Gather", "GatherD", "GatherNd", "EmbeddingLookup", "ScatterUpdate", "ReshapeAndCache", "KVCacheScatterUpdate")
)

_MODULES = (
    "mindspore.ops.auto_generate.gen_ops_prim",
    "mindspore.ops.operations.manually_defined.ops_def",
    "mindspore.ops.operations",
    "mindspore.ops.operations._inner_ops",
    "mindspore.ops.operations.inner_ops",
    "mindspore.ops.operations._grad_ops",
)


@cache
def _primitive_class(name: str) -> type | None:
    for module in _MODULES:
        found = getattr(importlib.import_module(module), name, None)
        if inspect.isclass(found):
            return found
    return None


@cache
def _class_statement(cls: type) -> ast.ClassDef | None:
    """The class's syntax tree, from its own lines only (the modules are too long to parse whole for each primitive)."""
    file = inspect.getsourcefile(cls)
    lines = linecache.getlines(file) if file else []
    start = next(
        (n for n, line in enumerate(lines) if line.startswith((f"class {cls.__name__}(", f"class {cls.__name__}:"))),
        None,
    )
    if start is None:
        return None
    end = next((n for n in range(start + 1, len(lines)) if lines[n].strip() and not lines[n][0].isspace()), len(lines))
    statement = ast.parse("".join(lines[start:end])).body[0]
    return statement if isinstance(statement, ast.ClassDef) else None


@cache
def written_arguments(name: str) -> tuple[int, ...]:
    """Positions of the arguments the primitive's signature marks as written."""
    if name in _CORRECTED_WRITES:
        return _CORRECTED_WRITES[name]
    cls = _primitive_class(name)
    statement = _class_statement(cls) if cls else None
    if statement is None:
        return ()
    for item in statement.body:
        if isinstance(item, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id == "__mindspore_signature__" for t in item.targets
        ):
            calls = [n for n in getattr(item.value, "elts", ()) if isinstance(n, ast.Call)]
            return tuple(n for n, call in enumerate(calls) if "RW_WRITE" in ast.dump(call))
    return ()


def kernel_writes_argument(name: str) -> bool:
    """Whether the CPU kernel writes an in-place op's argument itself.

    The ``Inplace…`` family returns a new tensor when run through `real_run_op`: its result has to be copied into the
    argument's storage.
    """
    return not name.startswith("Inplace")


def has_hidden_state(attributes: Mapping[str, Any]) -> bool:
    """Random number state or input/output: such ops keep their captured order among themselves."""
    return bool(attributes.get("side_effect_hidden") or attributes.get("side_effect_io"))


_PER_ELEMENT_5 = ("Softmax", "Norm", "Gelu", "GeLU", "SiLU", "Sigmoid", "Tanh", "Adam", "Momentum", "CrossEntropy")


def flops(name: str, shapes: list[tuple[int, ...]], flags: list[Any], results: list[tuple[int, ...]]) -> int:
    """Floating-point operations of one call; an estimate for anything but matrix products and convolutions.

    ``shapes`` are those of the tensor arguments in order, ``flags`` the constant arguments in order (transpose flags
    come first), ``results`` the shapes of the results.
    """
    elements = sum(prod(r) for r in results)
    if name in _ROW_COPIES:
        return 0
    if name == "PagedAttention" and len(shapes) >= 2:
        # Every query head meets every cached token twice: scores, and the weighted sum. The cache is taken as full.
        sequences, (blocks, block_tokens) = shapes[0][0], shapes[1][:2]
        return 2 * 2 * prod(shapes[0]) * (blocks * block_tokens // sequences)
    if name in ("MatMul", "BatchMatMul") and len(shapes) >= 2:
        transposed = bool(flags[0]) if flags else False
        return 2 * prod(results[0]) * shapes[0][-2 if transposed else -1]
    if name in ("MatMulExt", "BatchMatMulExt", "Mm", "Dense", "Addmm", "Baddbmm") and len(shapes) >= 2:
        left = shapes[1] if name in ("Addmm", "Baddbmm") else shapes[0]
        return 2 * prod(results[0]) * left[-1]
    if name in ("Conv2D", "Conv2DExt", "Convolution", "Conv3D") and len(shapes) >= 2:
        return 2 * prod(results[0]) * prod(shapes[1][1:])
    if name == "Conv2DBackpropInput" and len(shapes) >= 2:
        return 2 * prod(shapes[0]) * prod(shapes[1][1:])
    if name == "Conv2DBackpropFilter" and len(shapes) >= 2:
        return 2 * prod(shapes[0]) * prod(results[0][1:])
    if name.startswith("FlashAttentionScore") and len(shapes) >= 3:
        query, key = shapes[0], shapes[1]
        # Two products forward; five backward, which recomputes the scores. Half of it under a causal mask.
        products = 5 if name.endswith("Grad") else 2
        causal = bool(flags) and flags[-1] in (2, 3)
        return 2 * products * prod(query) * key[-2] // (2 if causal else 1)
    per_element = 5 if any(part in name for part in _PER_ELEMENT_5) else 1
    return per_element * max(elements, max((prod(s) for s in shapes), default=0))
