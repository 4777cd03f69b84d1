"""Small models to attach, of parameters that fill some pages each."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

WIDTH = 96


class Block(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm((WIDTH,))
        self.grow = nn.Dense(WIDTH, 2 * WIDTH)
        self.shrink = nn.Dense(2 * WIDTH, WIDTH)

    def construct(self, x):  # type: ignore[no-untyped-def]
        return x + self.shrink(ops.gelu(self.grow(self.norm(x))))


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.first = Block()
        self.second = Block()

    def construct(self, x):  # type: ignore[no-untyped-def]
        return self.second(self.first(x))


class Halves(nn.Cell):
    """float16 products of float32 weights, an embedding used twice, part of it without a gradient, a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ms.Parameter(Tensor(np.random.normal(size=(80, WIDTH)).astype(np.float32)), name="table")
        self.block = Block().to_float(ms.float16)
        self.frozen = nn.Dense(WIDTH, WIDTH)
        for parameter in self.frozen.get_parameters():
            parameter.requires_grad = False

    def construct(self, tokens, other):  # type: ignore[no-untyped-def]
        x = ops.gather(self.table, tokens, 0)
        x = self.frozen(x) + ops.stop_gradient(x)
        x = ops.where(other.expand_dims(-1) > 0, x, ops.zeros_like(x))
        return ops.softmax(self.block(x).astype(ms.float32) @ self.table.T, -1).square().mean()


def halves() -> nn.Cell:
    """A training step of `Halves`; inputs are (8, 24) tokens and a mask."""
    ms.set_seed(7)
    np.random.seed(7)
    model = Halves()
    return nn.TrainOneStepCell(model, nn.Momentum(model.trainable_params(), 0.1, 0.9, weight_decay=0.01)).set_train()


def token_batches(count: int = 3) -> list[tuple[Tensor, Tensor]]:
    random = np.random.default_rng(12)
    pairs = random.integers(0, 80, (count, 2, 8, 24)).astype(np.int32)
    return [(Tensor(tokens), Tensor(other % 3)) for tokens, other in pairs]


def net() -> Net:
    ms.set_seed(7)
    return Net()


def training(optimizer: str = "Adam") -> nn.Cell:
    """One training step; inputs are (rows, WIDTH) and targets of the same shape."""
    loss = nn.WithLossCell(net(), nn.MSELoss())
    kinds = {"Adam": nn.Adam, "SGD": nn.SGD}
    return nn.TrainOneStepCell(loss, kinds[optimizer](loss.trainable_params(), learning_rate=1e-3)).set_train()


def batches(rows: int = 64, count: int = 3) -> list[tuple[Tensor, Tensor]]:
    random = np.random.default_rng(11)
    pairs = random.normal(size=(count, 2, rows, WIDTH)).astype(np.float32)
    return [(Tensor(x), Tensor(y)) for x, y in pairs]


def training_function() -> tuple[Any, list[ms.Parameter]]:
    """A step as MindSpore's functional style writes it, and all its parameters."""
    model = net()
    optimizer = nn.Adam(model.trainable_params(), learning_rate=1e-3)
    loss_of = nn.MSELoss()

    def forward(x: Tensor, y: Tensor) -> Tensor:
        return loss_of(model(x), y)

    gradients_of = ms.value_and_grad(forward, None, optimizer.parameters)

    @ms.jit
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss, gradients = gradients_of(x, y)
        optimizer(gradients)
        return loss

    return step, [
        *model.get_parameters(),
        *(p for p in optimizer.get_parameters() if p.name not in model.parameters_dict()),
    ]
