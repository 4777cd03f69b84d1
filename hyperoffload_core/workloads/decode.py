"""One decode step of the decoder of `hyperoffload_core.workloads.llama`: a token per sequence against a cached context.

Every layer keeps the keys and values of all tokens so far in two parameters, ``key_cache`` and ``value_cache``, and
writes those of the new token into them in place, at the token's slot. With ``fused`` the step calls the kernels that a
model on Ascend calls (ReshapeAndCache writes the slot, PagedAttention reads the cache), which exist there only.
Otherwise ScatterUpdate writes the slot: its CPU kernel works in place and moves the rows it writes, whereas assigning
a slice of a parameter rewrites the whole cache.
"""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Normal, initializer
from mindspore.ops.auto_generate import PagedAttention, ReshapeAndCache

from hyperoffload_core.workloads.llama import FeedForward, LlamaConfig, Projections, RMSNorm, rotary_table

BLOCK_TOKENS = 128


class CachedAttention(Projections):
    """Attention of one new token per sequence over its cache of ``config.sequence`` slots.

    The caches are laid out as their kernels want them: (batch * sequence, key/value heads * head size), or, fused, in
    blocks (blocks, `BLOCK_TOKENS`, key/value heads, head size).
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config)
        slots = config.batch * config.sequence
        shape: tuple[int, ...] = (slots, config.kv_heads * config.head_size)
        if config.fused:
            shape = (slots // BLOCK_TOKENS, BLOCK_TOKENS, config.kv_heads, config.head_size)
        zeros = initializer("zeros", shape, config.dtype)
        self.key_cache = Parameter(zeros, name="key_cache", requires_grad=False)
        self.value_cache = Parameter(zeros, name="value_cache", requires_grad=False)
        self.context = config.sequence
        if config.fused:
            self.write = ReshapeAndCache()
            self.attend = PagedAttention(config.heads, self.scale, config.kv_heads)

    def construct(
        self, x: Tensor, cosine: Tensor, sine: Tensor, slots: Tensor, lengths: Tensor, context: Tensor
    ) -> Tensor:
        batch = x.shape[0]
        query = self.query(x).reshape(batch, self.heads, 1, self.head_size)
        key = self.key(x).reshape(batch, self.kv_heads, 1, self.head_size)
        query, key = self.rotate(query, cosine, sine), self.rotate(key, cosine, sine)
        value = self.value(x)
        if self.fused:
            key, value = key.reshape(batch, 1, -1), value.reshape(batch, 1, -1)
            written = self.write(key, value, self.key_cache, self.value_cache, slots)
            query = ops.depend(query.reshape(batch, 1, -1), written)
            attended = self.attend(query, self.key_cache, self.value_cache, context, lengths)
        else:
            keys = ops.scatter_update(self.key_cache, slots, key.reshape(batch, -1))
            values = ops.scatter_update(self.value_cache, slots, value.reshape(batch, -1))
            attended = self.attend_to_cache(query, keys, values, context)
        return self.output(attended.reshape(batch, 1, -1))

    def attend_to_cache(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        batch = query.shape[0]
        query = query.reshape(batch, self.kv_heads, self.groups, self.head_size)
        keys = keys.reshape(batch, self.context, self.kv_heads, self.head_size)
        values = values.reshape(batch, self.context, self.kv_heads, self.head_size)
        scores = ops.matmul(query, keys.transpose(0, 2, 3, 1)) * self.scale + mask
        return ops.matmul(ops.softmax(scores, -1), values.transpose(0, 2, 1, 3))


class DecodeBlock(nn.Cell):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(config), CachedAttention(config)
        self.feed_forward_norm, self.feed_forward = RMSNorm(config), FeedForward(config)

    def construct(
        self, x: Tensor, cosine: Tensor, sine: Tensor, slots: Tensor, lengths: Tensor, context: Tensor
    ) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cosine, sine, slots, lengths, context)
        return x + self.feed_forward(self.feed_forward_norm(x))


class DecodeStep(nn.Cell):
    """Token ids (batch, 1) and their positions (batch,), counted from 0, to logits (batch, 1, vocabulary).

    The caches must hold the keys and values of all earlier positions; what they hold of later ones is not read.
    ``config.sequence`` is the longest context.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        table = initializer(Normal(0.02), (config.vocabulary, config.hidden_size), config.dtype)
        self.embedding = Parameter(table, name="embedding")
        self.blocks = nn.CellList([DecodeBlock(config) for _ in range(config.layers)])
        self.norm = RMSNorm(config)
        self.head = nn.Dense(config.hidden_size, config.vocabulary, has_bias=False, dtype=config.dtype)
        cosine, sine = rotary_table(config)
        self.cosine, self.sine = Tensor(cosine, config.dtype), Tensor(sine, config.dtype)
        self.first_slots = Tensor(np.arange(config.batch) * config.sequence, ms.int32)
        self.fused, self.dtype = config.fused, config.dtype
        if config.fused:
            blocks = np.arange(config.batch * config.sequence // BLOCK_TOKENS).reshape(config.batch, -1)
            self.block_tables = Tensor(blocks, ms.int32)
        else:
            self.all_positions = Tensor(np.arange(config.sequence), ms.int32)

    def construct(self, tokens: Tensor, positions: Tensor) -> Tensor:
        batch = tokens.shape[0]
        x = ops.gather(self.embedding, tokens, 0)
        cosine = ops.gather(self.cosine, positions, 0).reshape(batch, 1, 1, -1)
        sine = ops.gather(self.sine, positions, 0).reshape(batch, 1, 1, -1)
        slots, lengths = positions + self.first_slots, positions + 1
        if self.fused:
            context = self.block_tables
        else:
            hidden = self.all_positions >= lengths.reshape(batch, 1, 1, 1)
            context = hidden.astype(self.dtype) * -1e4
        for block in self.blocks:
            x = block(x, cosine, sine, slots, lengths, context)
        return self.head(self.norm(x))
