"""A user's file: a small convolutional net with batch normalisation, trained with Momentum."""

import numpy as np
from mindspore import Tensor, nn, ops


class ConvNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(8, 16, 3, has_bias=True)
        self.head = nn.Dense(16 * 4 * 4, 10)

    def construct(self, x):
        x = self.pool(ops.relu(self.norm(self.conv1(x))))
        x = self.pool(ops.relu(self.conv2(x)))
        return self.head(ops.flatten(x))


def build():
    net = nn.WithLossCell(ConvNet(), nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(net.trainable_params(), learning_rate=0.05, momentum=0.9, weight_decay=1e-4)
    random = np.random.default_rng(1)
    images = Tensor(random.normal(size=(4, 3, 16, 16)).astype(np.float32))
    labels = Tensor(random.integers(0, 10, 4).astype(np.int32))
    return nn.TrainOneStepCell(net, optimizer).set_train(), (images, labels)
