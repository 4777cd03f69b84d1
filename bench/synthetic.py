"""Training steps of any size, made up: what a deep transformer's graph looks like, without a model or a front end.

A layer has eight matrix products between small ops, forward; backward reads what forward left, in reverse; an AdamW
update per weight ends the step. Sizes differ a little from layer to layer, the same in every run.
"""

from __future__ import annotations

from random import Random

from hyperoffload_core.ir import Graph, Op, Phase, Storage, TensorClass, dependencies

TOKENS, HIDDEN = 4096, 2048
# Output width of each forward op of a layer over HIDDEN, and whether it is a matrix product with a weight of its own.
_LAYER = (
    (1, False), (1, True), (1, True), (1, True), (1, False), (1, False), (1, True), (1, False), (1, False),
    (4, True), (4, True), (4, False), (4, False), (1, True), (1, False), (1, True), (1, False), (1, True),
)  # fmt: skip
_PRODUCTS = sum(product for _, product in _LAYER)
OPS_PER_LAYER = 2 * len(_LAYER) + 2 * _PRODUCTS


class _Builder:
    def __init__(self) -> None:
        self.storages: list[Storage] = []
        self.ops: list[tuple[str, str, str, Phase, tuple[int, ...], tuple[int, ...], int]] = []

    def storage(self, name: str, size: int, tensor_class: TensorClass, *, persistent: bool = False) -> int:
        self.storages.append(Storage(len(self.storages), name, size, tensor_class, persistent, (size // 2,), "float16"))
        return len(self.storages) - 1

    def op(
        self, name: str, primitive: str, scope: str, phase: Phase, reads: list[int], writes: list[int], flops: int
    ) -> None:
        self.ops.append((name, primitive, scope, phase, tuple(dict.fromkeys(reads)), tuple(writes), flops))

    def graph(self, name: str) -> Graph:
        after = dependencies([(op[4], op[5]) for op in self.ops])
        ops = tuple(
            Op(n, name, primitive, scope, phase, reads, writes, after[n], flops=flops)
            for n, (name, primitive, scope, phase, reads, writes, flops) in enumerate(self.ops)
        )
        return Graph(name, ops, tuple(self.storages))


def synthetic_training(op_count: int) -> Graph:
    """A training step of about ``op_count`` ops (whole layers)."""
    layers = max(1, round(op_count / OPS_PER_LAYER))
    random, b = Random(layers), _Builder()
    x = b.storage("tokens", 2 * TOKENS * HIDDEN, "input")
    tape: list[tuple[int, str, int, int, int, int | None]] = []
    weights: list[tuple[str, str, int, int, int]] = []
    for layer in range(layers):
        tokens = TOKENS * random.randint(3, 5) // 4
        scope, residual, width_in = f"Default/blocks-CellList/{layer}-Block", x, 1
        for n, (width, product) in enumerate(_LAYER):
            name = f"blocks.{layer}.{n}"
            reads, weight, flops = [x], None, 5 * tokens * HIDDEN * width
            if product:
                weight = b.storage(f"{name}.weight", 2 * HIDDEN * HIDDEN * width_in * width, "weight", persistent=True)
                reads.append(weight)
                flops = 2 * tokens * HIDDEN * HIDDEN * width_in * width
            elif n in (8, len(_LAYER) - 2):
                reads.append(residual)
            y = b.storage(name, 2 * tokens * HIDDEN * width, "activation")
            b.op(f"{name}/op", "MatMul" if product else "Mul", scope, "forward", reads, [y], flops)
            tape.append((layer, name, x, y, flops, weight))
            x, width_in = y, width
    gradient = b.storage("loss.gradient", b.storages[x].bytes, "gradient")
    b.op("loss", "CrossEntropy", "Default", "forward", [x], [gradient], 0)
    for layer, name, x, y, flops, weight in reversed(tape):
        scope = f"Gradients/Default/blocks-CellList/{layer}-Block"
        below = b.storage(f"gradient/{name}", b.storages[x].bytes, "gradient")
        if weight is None:
            b.op(f"gradient/{name}", "MulGrad", scope, "backward", [gradient, x, y], [below], flops)
        else:
            update = b.storage(f"gradient/{name}.weight", b.storages[weight].bytes, "gradient")
            b.op(f"gradient/{name}", "MatMul", scope, "backward", [gradient, weight], [below], flops)
            b.op(f"gradient/{name}.weight", "MatMul", scope, "backward", [gradient, x], [update], flops)
            weights.append((name, scope, weight, update, b.storages[weight].bytes))
        gradient = below
    for name, scope, weight, update, size in weights:
        moments = [b.storage(f"adam_{m}.{name}", 2 * size, "optimizer_state", persistent=True) for m in "mv"]
        written = [weight, *moments]
        b.op(f"update/{name}", "AdamWeightDecay", scope, "optimizer", [*written, update], written, 5 * size // 2)
    return b.graph(f"synthetic-{len(b.ops)}")
