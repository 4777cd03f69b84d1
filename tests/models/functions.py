"""A user's file in MindSpore's functional style: the step is a function that `mindspore.jit` compiles."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


def build():
    ms.set_seed(5)
    net = nn.SequentialCell(nn.Dense(64, 128), nn.Tanh(), nn.Dense(128, 64))
    optimizer = nn.Momentum(net.trainable_params(), 1e-2, 0.9)

    def loss_of(x, y):
        return ops.square(net(x) - y).mean()

    gradients_of = ms.value_and_grad(loss_of, None, optimizer.parameters)

    @ms.jit
    def step(x, y):
        loss, gradients = gradients_of(x, y)
        optimizer(gradients)
        return loss

    random = np.random.default_rng(6)
    return step, tuple(Tensor(random.normal(size=(32, 64)).astype(np.float32)) for _ in range(2))


def step_of(x, y):
    return x + y
