"""A user's file with every mistake a model function can make."""

import numpy as np
from mindspore import Tensor, nn, ops


class WrongShapes(nn.Cell):
    def construct(self, x):
        return ops.matmul(x, x)


def raises():
    raise KeyError("weights.ckpt")


def returns_a_number():
    return 3


def returns_no_cell():
    return "net", ()


def wrong_shapes():
    return WrongShapes(), (Tensor(np.ones((2, 3), np.float32)),)


not_a_function = 1
