"""The registered workloads, all LLaMA-style decoders of `hyperoffload_core.workloads.llama`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn
from mindspore.common.initializer import initializer
from mindspore.nn.utils import no_init_parameters

from hyperoffload_core.workloads import Workload, text
from hyperoffload_core.workloads.decode import DecodeStep
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
# One sequence at the longest context of LLaMA-3.1 (its scaling of the rotary angles changes values, not sizes).
LLAMA3_8B_DECODE = replace(LLAMA3_8B, sequence=131072)
CONFIGS = {
    "demo": DEMO,
    "tiny": TINY,
    "tiny-prefill": TINY,
    "tiny-decode": TINY,
    "llama3-8b-train": LLAMA3_8B,
    "llama3-8b-decode": LLAMA3_8B_DECODE,
}
BATCHES = 8
SEED = 2718


def build(name: str, with_values: bool) -> Workload:
    """The workload of that name; see `hyperoffload_core.workloads.build_workload`."""
    config = CONFIGS[name]
    if not with_values:
        with without_weights():
            cell = _cell(name, config)
        zeros = np.zeros((config.batch, config.sequence), np.int32)
        return Workload(cell, _step_inputs(name, zeros, zeros, 0), ())
    ms.set_seed(SEED)
    steps = text.batches(config.batch, config.sequence, BATCHES, SEED)
    batches = tuple(_step_inputs(name, *pair, n) for n, pair in enumerate(steps))
    if name.endswith("-decode"):  # one text, token after token
        batches = tuple(_step_inputs(name, *steps[0], n) for n in range(BATCHES))
    return Workload(_cell(name, config), batches[0], batches)


def _step_inputs(name: str, tokens: np.ndarray, targets: np.ndarray, step: int) -> tuple[Tensor, ...]:
    """What a step of the workload takes of token ids and next token ids, both (batch, sequence)."""
    if name.endswith("-decode"):
        return Tensor(np.ascontiguousarray(tokens[:, step : step + 1])), Tensor(np.full(len(tokens), step, np.int32))
    return (Tensor(tokens),) if name.endswith("-prefill") else (Tensor(tokens), Tensor(targets))


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
    """Inference cells carry MindSpore's own flag that tells reading a prompt from producing tokens."""
    if name.endswith("-decode"):
        return DecodeStep(config).set_train(False).add_flags(is_first_iteration=False)
    if name.endswith("-prefill"):
        return Decoder(config).set_train(False).add_flags(is_first_iteration=True)
    return training_step(config)
