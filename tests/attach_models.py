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
