"""Real MindSpore models to capture, by name. Listing them does not import mindspore; building one does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hyperoffload_core.capture.source import load_source
from hyperoffload_core.errors import UserError, near_matches

WORKLOADS: Mapping[str, str] = {
    "demo": "LLaMA-style decoder, 28 million parameters, one AdamW training step on 2 x 256 bytes of real text",
    "tiny": "the same with 0.1 million parameters, for fast tests",
    "tiny-prefill": "the tiny decoder reading a prompt, no training",
    "tiny-decode": "the tiny decoder producing one token per sequence, key/value caches updated in place",
    "llama3-8b-train": "LLaMA-3-8B, one AdamW training step at sequence 4096; planned and simulated, not run",
    "llama3-8b-decode": "LLaMA-3-8B producing one token against a context of 131,072; planned and simulated, not run",
}
# Too large to be materialised here, and made of kernels that only Ascend has.
WITHOUT_WEIGHTS = frozenset(("llama3-8b-train", "llama3-8b-decode"))


class WorkloadError(UserError):
    """An unknown workload, or one that cannot be run."""


@dataclass(frozen=True)
class Workload:
    """A cell and its inputs; ``batches`` holds the inputs of successive steps (tuples of tensors), where there are any
    but these inputs."""

    cell: Any
    inputs: tuple[Any, ...]
    batches: tuple[tuple[Any, ...], ...]


def workload_names() -> tuple[str, ...]:
    """Names that `build_workload` knows."""
    return tuple(WORKLOADS)


def load_model(model: str, *, with_values: bool) -> Workload:
    """The workload of a name, or the model of ``FILE.py:FUNCTION``. Raises `WorkloadError`, `CaptureError`."""
    if ":" not in model:
        return build_workload(model, with_values=with_values)
    cell, inputs = load_source(model)
    return Workload(cell, inputs, ())


def build_workload(name: str, *, with_values: bool = True) -> Workload:
    """Build the cell; ``with_values=False`` leaves its parameters without memory (it can then be captured, not run).

    Raises `WorkloadError` for an unknown name, or for values of a workload that has none.
    """
    if name not in WORKLOADS:
        near = near_matches(name, WORKLOADS)
        raise WorkloadError(
            f"there is no workload {name!r}; {'did you mean' if near else 'there are'} "
            f"{', '.join(near or WORKLOADS)}{'?' if near else ''} (for your own model write FILE.py:FUNCTION)"
        )
    if with_values and name in WITHOUT_WEIGHTS:
        raise WorkloadError(
            f"{name} cannot be run here: its weights are never made and its fused kernels exist on Ascend only; "
            "compile or simulate it instead"
        )
    from hyperoffload_core.workloads.decoders import build

    return build(name, with_values)
