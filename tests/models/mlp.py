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
