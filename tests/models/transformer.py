"""A user's file: LayerNorm and GELU transformer layers trained with Adam and a learning-rate schedule."""

import numpy as np
from mindspore import Tensor, nn, ops


class Layer(nn.Cell):
    def __init__(self, size):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((size,)), nn.LayerNorm((size,))
        self.mix = nn.Dense(size, 3 * size)
        self.out = nn.Dense(size, size)
        self.up, self.down = nn.Dense(size, 4 * size), nn.Dense(4 * size, size)
        self.gelu = nn.GELU()

    def construct(self, x):
        query, key, value = ops.split(self.mix(self.norm1(x)), x.shape[-1], axis=-1)
        weights = ops.softmax(ops.matmul(query, key.swapaxes(-1, -2)) / 4.0, -1)
        x = x + self.out(ops.matmul(weights, value))
        return x + self.down(self.gelu(self.up(self.norm2(x))))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.layers = nn.SequentialCell(Layer(16), Layer(16))
        self.head = nn.Dense(16, 32)

    def construct(self, tokens, targets):
        logits = self.head(self.layers(self.embedding(tokens)))
        return ops.cross_entropy(logits.reshape(-1, 32), targets.reshape(-1))


def build():
    net = Net()
    schedule = nn.cosine_decay_lr(0.0, 0.01, total_step=10, step_per_epoch=5, decay_epoch=2)
    optimizer = nn.Adam(net.trainable_params(), learning_rate=schedule)
    random = np.random.default_rng(2)
    tokens = Tensor(random.integers(0, 32, (2, 8)).astype(np.int32))
    return {"cell": nn.TrainOneStepCell(net, optimizer).set_train(), "inputs": (tokens, tokens)}
