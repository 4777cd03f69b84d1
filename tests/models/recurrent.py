"""A user's file: an LSTM-like loop over time that MindSpore unrolls, trained with SGD."""

import numpy as np
from mindspore import Tensor, nn, ops


class Recurrent(nn.Cell):
    def __init__(self, size=12):
        super().__init__()
        self.size = size
        self.gates = nn.Dense(2 * size, 4 * size)

    def construct(self, x, target):
        hidden = ops.zeros((x.shape[1], self.size))
        state = hidden
        for t in range(x.shape[0]):
            gates = self.gates(ops.concat((x[t], hidden), -1))
            keep, write, read, value = ops.split(gates, self.size, axis=-1)
            state = ops.sigmoid(keep) * state + ops.sigmoid(write) * ops.tanh(value)
            hidden = ops.sigmoid(read) * ops.tanh(state)
        return ((hidden - target) ** 2).mean()


def build():
    net = Recurrent()
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.1, momentum=0.9)
    random = np.random.default_rng(3)
    x = Tensor(random.normal(size=(5, 3, 12)).astype(np.float32))
    target = Tensor(random.normal(size=(3, 12)).astype(np.float32))
    return nn.TrainOneStepCell(net, optimizer).set_train(), (x, target)
