"""Byte-level tokens of real text that every machine with Python has: the interpreter's licence and documentation."""

from __future__ import annotations

import sysconfig
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 256
_FILES = ("LICENSE.txt", "pydoc_data/topics.py", "argparse.py")


@cache
def text_bytes() -> NDArray[np.uint8]:
    """The text, one number per byte."""
    library = Path(sysconfig.get_paths()["stdlib"])
    found = [path.read_bytes() for name in _FILES if (path := library / name).is_file()]
    return np.frombuffer(b"\n".join(found), dtype=np.uint8)


def batches(
    batch: int, sequence: int, count: int, seed: int
) -> tuple[tuple[NDArray[np.int32], NDArray[np.int32]], ...]:
    """``count`` pairs (tokens, next tokens), each (batch, sequence) of int32; the same for the same seed and text."""
    text = text_bytes()
    random = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        starts = random.integers(0, len(text) - sequence - 1, batch)
        windows = np.stack([text[s : s + sequence + 1] for s in starts]).astype(np.int32)
        result.append((np.ascontiguousarray(windows[:, :-1]), np.ascontiguousarray(windows[:, 1:])))
    return tuple(result)
