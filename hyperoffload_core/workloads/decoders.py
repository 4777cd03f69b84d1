"""The registered workloads, all LLaMA-style decoders of `hyperoffload_core.workloads.llama`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn
from mindspore.common.initializer import initializer
from mindspore.nn.utils import no_init_parameters

from hyperoffload_core.workloads import Workload, text
from hyperoffload_core.workloads.llama import LLAMA3_8B, Decoder, LlamaConfig, NextTokenLoss

DEMO = LlamaConfig(
    layers=6,
    hidden_size=640,
    heads=10,
    kv_heads=5,
    feed_forward_size=1792,
    vocabulary=text.VOCABULARY,
    sequence=256,
    batch=2,
)
TINY = LlamaConfig(
    layers=2,
    hidden_size=64,
    heads=4,
    kv_heads=2,
    feed_forward_size=128,
    vocabulary=text.VOCABULARY,
    sequence=32,
    batch=2,
)
BATCHES = 8
SEED = 2718


def build(name: str, with_values: bool) -> Workload:
    """The workload of that name; see `hyperoffload_core.workloads.build_workload`."""
    config = {"demo": DEMO, "tiny": TINY, "tiny-prefill": TINY, "llama3-8b-train": LLAMA3_8B}[name]
    if not with_values:
        with without_weights():
            cell = _cell(name, config)
        inputs = _tensors(np.zeros((config.batch, config.sequence), np.int32), name != "tiny-prefill")
        return Workload(cell, inputs, ())
    ms.set_seed(SEED)
    steps = text.batches(config.batch, config.sequence, BATCHES, SEED)
    if name == "tiny-prefill":
        prompts = tuple((Tensor(tokens),) for tokens, _ in steps)
        return Workload(_cell(name, config), prompts[0], prompts)
    pairs = tuple((Tensor(tokens), Tensor(targets)) for tokens, targets in steps)
    return Workload(_cell(name, config), pairs[0], pairs)


@contextmanager
def without_weights() -> Iterator[None]:
    """Parameters made inside get no memory (and no values) until something asks for it."""
    with no_init_parameters():
        yield


def training_step(config: LlamaConfig, learning_rate: float = 1e-4, weight_decay: float = 0.1) -> nn.Cell:
    """Forward, backward and AdamW of a decoder; inputs are tokens and next tokens."""
    loss = NextTokenLoss(Decoder(config), config.vocabulary)
    optimizer = AdamW(loss.trainable_params(), learning_rate=learning_rate, weight_decay=weight_decay)
    return nn.TrainOneStepCell(loss, optimizer).set_train()


class AdamW(nn.AdamWeightDecay):
    """MindSpore's AdamW with moments in float32 whatever the weights are (MindSpore clones the weights' type)."""

    def __init__(self, params: Any, learning_rate: float, weight_decay: float):
        super().__init__(params, learning_rate=learning_rate, weight_decay=weight_decay)
        self.moments1 = self._float32_moments("adam_m")
        self.moments2 = self._float32_moments("adam_v")

    def _float32_moments(self, prefix: str) -> ParameterTuple:
        return ParameterTuple(
            [Parameter(initializer("zeros", p.shape, ms.float32), name=f"{prefix}.{p.name}") for p in self._parameters]
        )


def _cell(name: str, config: LlamaConfig) -> nn.Cell:
    if name == "tiny-prefill":
        return Decoder(config).set_train(False)
    return training_step(config)


def _tensors(tokens: np.ndarray, with_targets: bool) -> tuple[Tensor, ...]:
    return (Tensor(tokens), Tensor(tokens)) if with_targets else (Tensor(tokens),)
