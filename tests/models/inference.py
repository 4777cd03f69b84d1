"""A user's file: inference cells with a cache updated in place, several results, and control flow."""

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.common.initializer import initializer


class Decode(nn.Cell):
    """One decoding step: keys and values of the new token go into the cache at a position, then attention reads all."""

    def __init__(self, size=8, length=6):
        super().__init__()
        self.project = nn.Dense(size, 3 * size)
        self.key_cache = Parameter(initializer("zeros", (length, size)), name="key_cache", requires_grad=False)
        self.value_cache = Parameter(initializer("zeros", (length, size)), name="value_cache", requires_grad=False)
        self.size = size

    def construct(self, x, position):
        query, key, value = ops.split(self.project(x), self.size, axis=-1)
        self.key_cache = ops.scatter_update(self.key_cache, position, key)
        self.value_cache = ops.scatter_update(self.value_cache, position, value)
        weights = ops.softmax(ops.matmul(query, self.key_cache.T), -1)
        return ops.matmul(weights, self.value_cache)


class Several(nn.Cell):
    """A nested tuple of results, one of them a constant, one an input's view."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(8, 8)
        self.deep = True

    def construct(self, x):
        low, high = ops.split(self.dense(x), 4, axis=-1)
        if self.deep:
            low = low.sum()
        return low, (high, x.argmax())


class Counting(nn.Cell):
    """Reads a parameter before and after it is assigned."""

    def __init__(self):
        super().__init__()
        self.count = Parameter(Tensor(np.float32(1)), name="count", requires_grad=False)

    def construct(self, x):
        before = self.count * x
        self.count = self.count + 1
        ops.assign_add(self.count, Tensor(2.0, ms.float32))
        return before, self.count * x


class Branching(nn.Cell):
    """The branch depends on a tensor's value."""

    def construct(self, x):
        if x.sum() > 0:
            return x * 2
        return x - 1


def decode():
    random = np.random.default_rng(5)
    return Decode(), (Tensor(random.normal(size=(1, 8)).astype(np.float32)), Tensor([2], ms.int32))


def several():
    return Several(), (Tensor(np.arange(16, dtype=np.float32).reshape(2, 8)),)


def counting():
    return Counting(), (Tensor(np.arange(3, dtype=np.float32)),)


def branching():
    return Branching(), (Tensor(np.arange(3, dtype=np.float32)),)


class InPlace(nn.Cell):
    """Tensor methods that work in place, on a parameter and on an intermediate tensor."""

    def __init__(self):
        super().__init__()
        self.state = Parameter(Tensor(np.ones((2, 3), np.float32)), name="state", requires_grad=False)

    def construct(self, x):
        self.state.add_(x)
        y = x * 2
        z = y + 1
        y.mul_(self.state)
        return y, z


class Slices(nn.Cell):
    """Assigns to a slice of a parameter."""

    def __init__(self):
        super().__init__()
        self.state = Parameter(Tensor(np.ones((4, 3), np.float32)), name="state", requires_grad=False)

    def construct(self, x):
        self.state[1:3] = x
        return self.state.sum()


class Mint(nn.Cell):
    """Views of the mint interface, and a transposed result."""

    def construct(self, x):
        y = x.transpose(0, 1) if False else x.swapaxes(0, 1)
        return mint.transpose(y, 0, 1)[:, 1:] + 1, mint.narrow(x, 1, 0, 2), x.view(-1), x


def in_place():
    return InPlace(), (Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)),)


def slices():
    return Slices(), (Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)),)


def views():
    return Mint(), (Tensor(np.arange(6, dtype=np.float32).reshape(2, 3)),)


class Through(nn.Cell):
    """Writes in place through views: one contiguous in its base, one that is not."""

    def __init__(self, dim):
        super().__init__()
        self.state = Parameter(Tensor(np.ones((4, 6), np.float32)), name="state", requires_grad=False)
        self.dim = dim

    def construct(self, x):
        part = mint.narrow(self.state, self.dim, 1, 2)
        part.add_(x)
        return self.state * 2


def through_rows():
    return Through(0), (Tensor(np.float32(3)),)


def through_columns():
    return Through(1), (Tensor(np.float32(3)),)
