"""A LLaMA-style decoder as ordinary MindSpore cells: RMSNorm, rotary embedding, grouped-query attention, SwiGLU.

The shapes of ``LLAMA3_8B`` are those of the public configuration (32 layers, hidden 4096, 32 query and 8 key/value
heads, feed-forward 14336, vocabulary 128256). With ``fused`` the decoder calls the kernels a model on Ascend calls
(RmsNorm, RotaryPositionEmbedding, FlashAttentionScore). Those have no CPU kernels: such a graph is captured and
simulated here, never executed.
"""

from __future__ import annotations

from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Normal, initializer
from mindspore.ops.operations.nn_ops import FlashAttentionScore


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes of one decoder; ``head_size`` is ``hidden_size // heads``."""

    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    feed_forward_size: int
    vocabulary: int
    sequence: int
    batch: int = 1
    rope_theta: float = 500000.0
    norm_epsilon: float = 1e-5
    dtype: ms.Type = ms.float32
    fused: bool = False

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.heads


LLAMA3_8B = LlamaConfig(
    layers=32,
    hidden_size=4096,
    heads=32,
    kv_heads=8,
    feed_forward_size=14336,
    vocabulary=128256,
    sequence=4096,
    dtype=ms.bfloat16,
    fused=True,
)


def rotary_table(config: LlamaConfig) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of the rotary angles, each (sequence, head_size) of float32."""
    inverse = 1.0 / config.rope_theta ** (np.arange(0, config.head_size, 2) / config.head_size)
    angle = np.outer(np.arange(config.sequence), inverse)
    angle = np.concatenate([angle, angle], axis=-1)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


class RMSNorm(nn.Cell):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.weight = Parameter(initializer("ones", (config.hidden_size,), config.dtype), name="weight")
        self.epsilon, self.fused = config.norm_epsilon, config.fused

    def construct(self, x: Tensor) -> Tensor:
        if self.fused:
            return ops.rms_norm(x, self.weight, self.epsilon)[0]
        variance = ops.mean(ops.square(x), -1, True)
        return x * ops.rsqrt(variance + self.epsilon) * self.weight


class Projections(nn.Cell):
    """What every form of the attention has: its four matrices and the rotary embedding."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_size = config.heads, config.kv_heads, config.head_size
        self.groups = config.heads // config.kv_heads
        kv_size = config.kv_heads * config.head_size
        self.query = nn.Dense(config.hidden_size, config.hidden_size, has_bias=False, dtype=config.dtype)
        self.key = nn.Dense(config.hidden_size, kv_size, has_bias=False, dtype=config.dtype)
        self.value = nn.Dense(config.hidden_size, kv_size, has_bias=False, dtype=config.dtype)
        self.output = nn.Dense(config.hidden_size, config.hidden_size, has_bias=False, dtype=config.dtype)
        self.scale = config.head_size**-0.5
        self.fused = config.fused

    def rotate(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        if self.fused:
            return ops.rotary_position_embedding(x, cosine, sine)
        half = self.head_size // 2
        swapped = ops.concat((-x[..., half:], x[..., :half]), axis=-1)
        return x * cosine + swapped * sine


class Attention(Projections):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        if config.fused:
            # sparse_mode 2: causal, with the compressed mask of 2048 x 2048 that this mode wants.
            self.attend = FlashAttentionScore(config.heads, scale_value=self.scale, input_layout="BNSD", sparse_mode=2)

    def construct(self, x: Tensor, cosine: Tensor, sine: Tensor, mask: Tensor) -> Tensor:
        batch, sequence, _ = x.shape
        query = self.query(x).reshape(batch, sequence, self.heads, self.head_size).transpose(0, 2, 1, 3)
        key = self.key(x).reshape(batch, sequence, self.kv_heads, self.head_size).transpose(0, 2, 1, 3)
        value = self.value(x).reshape(batch, sequence, self.kv_heads, self.head_size).transpose(0, 2, 1, 3)
        query, key = self.rotate(query, cosine, sine), self.rotate(key, cosine, sine)
        if self.fused:
            context = self.attend(query, key, value, None, None, None, mask, None, None, None)[3]
        else:
            context = self.attend_plainly(query, key, value, mask)
        return self.output(context.transpose(0, 2, 1, 3).reshape(batch, sequence, -1))

    def attend_plainly(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        batch, _, sequence, _ = query.shape
        query = query.reshape(batch, self.kv_heads, self.groups * sequence, self.head_size)
        scores = ops.matmul(query, key.transpose(0, 1, 3, 2)) * self.scale
        scores = scores.reshape(batch, self.kv_heads, self.groups, sequence, sequence) + mask
        weights = ops.softmax(scores, -1).reshape(batch, self.kv_heads, self.groups * sequence, sequence)
        return ops.matmul(weights, value).reshape(batch, self.heads, sequence, self.head_size)


class FeedForward(nn.Cell):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate = nn.Dense(config.hidden_size, config.feed_forward_size, has_bias=False, dtype=config.dtype)
        self.up = nn.Dense(config.hidden_size, config.feed_forward_size, has_bias=False, dtype=config.dtype)
        self.down = nn.Dense(config.feed_forward_size, config.hidden_size, has_bias=False, dtype=config.dtype)

    def construct(self, x: Tensor) -> Tensor:
        return self.down(ops.silu(self.gate(x)) * self.up(x))


class Block(nn.Cell):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(config), Attention(config)
        self.feed_forward_norm, self.feed_forward = RMSNorm(config), FeedForward(config)

    def construct(self, x: Tensor, cosine: Tensor, sine: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cosine, sine, mask)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Decoder(nn.Cell):
    """Token ids (batch, sequence) to logits (batch, sequence, vocabulary)."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        table = initializer(Normal(0.02), (config.vocabulary, config.hidden_size), config.dtype)
        self.embedding = Parameter(table, name="embedding")
        self.blocks = nn.CellList([Block(config) for _ in range(config.layers)])
        self.norm = RMSNorm(config)
        self.head = nn.Dense(config.hidden_size, config.vocabulary, has_bias=False, dtype=config.dtype)
        cosine, sine = (table[None, None] for table in rotary_table(config))
        self.cosine, self.sine = Tensor(cosine, config.dtype), Tensor(sine, config.dtype)
        if config.fused:
            self.mask = Tensor(np.triu(np.ones((2048, 2048)), 1), ms.bool_)
        else:
            self.mask = Tensor(np.triu(np.full((config.sequence, config.sequence), -1e4, np.float32), 1), config.dtype)

    def construct(self, tokens: Tensor) -> Tensor:
        x = ops.gather(self.embedding, tokens, 0)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine, self.mask)
        return self.head(self.norm(x))


class NextTokenLoss(nn.Cell):
    """Mean cross-entropy of each next token; inputs are token ids and target ids, both (batch, sequence)."""

    def __init__(self, decoder: Decoder, vocabulary: int) -> None:
        super().__init__()
        self.decoder, self.vocabulary = decoder, vocabulary

    def construct(self, tokens: Tensor, targets: Tensor) -> Tensor:
        logits = self.decoder(tokens).reshape(-1, self.vocabulary)
        return ops.cross_entropy(logits.astype(ms.float32), targets.reshape(-1))
