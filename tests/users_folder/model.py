"""A user's model whose neighbours have the names of our packages."""

import numpy as np
from mindspore import Tensor, nn

from app import WIDTH
from db import sample
from profiles import LAYERS


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layers = nn.SequentialCell([c for _ in range(LAYERS) for c in (nn.Dense(WIDTH, WIDTH), nn.ReLU())])

    def construct(self, x):
        return self.layers(x)


def build():
    print("the model may print; that must not disturb anything")
    net = nn.WithLossCell(Net(), nn.MSELoss())
    step = nn.TrainOneStepCell(net, nn.Adam(net.trainable_params(), 1e-3)).set_train()
    return step, (Tensor(sample(64, WIDTH)), Tensor(np.zeros((64, WIDTH), np.float32)))


def broken():
    raise RuntimeError("no data")


def leaves():
    raise SystemExit(3)
