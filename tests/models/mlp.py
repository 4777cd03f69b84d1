"""A user's file: an MLP with dropout, trained with Adam; and one that is written in float16."""

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops


class Dropped(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Dense(16, 32), nn.Dense(32, 8)
        self.drop1, self.drop2 = nn.Dropout(p=0.5), nn.Dropout(p=0.2)

    def construct(self, x, y):
        x = self.drop1(ops.relu(self.first(x)))
        return ((self.drop2(self.second(x)) - y) ** 2).mean()


class Half(nn.Cell):
    """No bias and no tanh: in CPU graph mode MatMul and BiasAdd are fused, which rounds float16 once instead of twice,
    and Tanh gets another float16 kernel than a single op does."""

    def __init__(self):
        super().__init__()
        self.first = nn.Dense(16, 32, has_bias=False).to_float(ms.float16)
        self.second = nn.Dense(32, 8, has_bias=False, dtype=ms.float16)

    def construct(self, x, y):
        out = self.second(ops.relu(self.first(x)).astype(ms.float16))
        return ops.abs(out.astype(ms.float32) - y).mean()


def _data():
    random = np.random.default_rng(4)
    return tuple(Tensor(random.normal(size=(4, n)).astype(np.float32)) for n in (16, 8))


def dropout():
    net = Dropped()
    return nn.TrainOneStepCell(net, nn.Adam(net.trainable_params(), 1e-2)).set_train(), _data()


def half():
    net = Half()
    return nn.TrainOneStepCell(net, nn.AdamWeightDecay(net.trainable_params(), 1e-2)).set_train(), _data()


def lost_update():
    net = Half()
    return nn.TrainOneStepCell(net, nn.RMSProp(net.trainable_params(), 1e-2)).set_train(), _data()


class HalfTanh(nn.Cell):
    """Tanh is computed in float32 on CPU, and so is its gradient, which takes the result before it is rounded."""

    def __init__(self):
        super().__init__()
        self.table = ms.Parameter(Tensor(np.random.default_rng(5).normal(size=(40, 48)).astype(np.float16)))
        self.layers = nn.SequentialCell([nn.Dense(48, 48, has_bias=False, dtype=ms.float16) for _ in range(3)])

    def construct(self, x, y):
        x = ops.matmul(x[:, :1].astype(ms.float16), self.table[:1])
        for layer in self.layers:
            x = ops.tanh(layer(x))
        return ops.abs(x.astype(ms.float32).sum() - y).mean()


def half_tanh():
    ms.set_seed(3)
    net = HalfTanh()
    random = np.random.default_rng(4)
    data = tuple(Tensor(random.normal(size=(64, n)).astype(np.float32)) for n in (16, 8))
    return nn.TrainOneStepCell(net, nn.AdamWeightDecay(net.trainable_params(), 1e-2)).set_train(), data
