"""A user's file: the same small net under every optimizer of MindSpore that updates in place in its own way."""

import numpy as np
from mindspore import Tensor, mint, nn


def _net():
    return nn.WithLossCell(nn.SequentialCell(nn.Dense(6, 5), nn.Tanh(), nn.Dense(5, 3)), nn.MSELoss())


def _step(make):
    net = _net()
    random = np.random.default_rng(6)
    data = tuple(Tensor(random.normal(size=(4, n)).astype(np.float32)) for n in (6, 3))
    return nn.TrainOneStepCell(net, make(net.trainable_params())).set_train(), data


def sgd():
    return _step(lambda p: nn.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, nesterov=False))


def momentum():
    return _step(lambda p: nn.Momentum(p, 0.1, 0.9, use_nesterov=True))


def adam():
    return _step(lambda p: nn.Adam(p, 0.01, use_amsgrad=False))


def amsgrad():
    return _step(lambda p: nn.Adam(p, 0.01, use_amsgrad=True))


def rmsprop():
    return _step(lambda p: nn.RMSProp(p, 0.01))


def centered_rmsprop():
    return _step(lambda p: nn.RMSProp(p, 0.01, centered=True))


def adagrad():
    return _step(lambda p: nn.Adagrad(p))


def ftrl():
    return _step(lambda p: nn.FTRL(p))


def lamb():
    return _step(lambda p: nn.Lamb(p, 0.01))


def lars():
    return _step(lambda p: nn.LARS(nn.Momentum(p, 0.1, 0.9)))


def adadelta():
    return _step(lambda p: nn.Adadelta(p))


def adamax():
    return _step(lambda p: nn.AdaMax(p))


def asgd():
    return _step(lambda p: nn.ASGD(p))


def rprop():
    return _step(lambda p: nn.Rprop(p))


def mint_adamw():
    return _step(lambda p: mint.optim.AdamW(p, lr=0.01))
