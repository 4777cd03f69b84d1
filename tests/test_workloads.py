"""The registered workloads."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from hyperoffload_core.workloads import WorkloadError, build_workload, text, workload_names


def test_names_are_listed_without_importing_mindspore() -> None:
    code = "import sys, hyperoffload_core.workloads as w; print(w.workload_names(), 'mindspore' in sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'demo'" in output
    assert output.strip().endswith("False")


def test_an_unknown_name_gets_near_matches() -> None:
    with pytest.raises(WorkloadError, match=r"no workload 'llama3-8b'; did you mean .*llama3-8b-train"):
        build_workload("llama3-8b")
    with pytest.raises(WorkloadError, match=f"there are {workload_names()[0]}"):
        build_workload("xyzzy")


def test_a_workload_without_weights_cannot_be_built_to_run() -> None:
    for name in ("llama3-8b-train", "llama3-8b-decode"):
        with pytest.raises(WorkloadError, match=f"{name} cannot be run here"):
            build_workload(name)


def test_batches_are_real_text_and_repeatable() -> None:
    first = text.batches(2, 64, count=3, seed=5)
    again = text.batches(2, 64, count=3, seed=5)
    assert all(
        np.array_equal(a, b) for left, right in zip(first, again, strict=True) for a, b in zip(left, right, strict=True)
    )
    tokens, targets = first[0]
    assert tokens.shape == targets.shape == (2, 64)
    assert np.array_equal(tokens[:, 1:], targets[:, :-1])
    assert bytes(tokens[0].astype(np.uint8)) in text.text_bytes().tobytes()
    assert b"PYTHON SOFTWARE FOUNDATION LICENSE" in text.text_bytes().tobytes()


@pytest.mark.mindspore
def test_the_demo_has_the_size_it_says() -> None:
    cell = build_workload("demo", with_values=False).cell
    sizes = [int(np.prod(p.shape)) for p in cell.network.trainable_params()]
    assert 25_000_000 <= sum(sizes) <= 40_000_000


@pytest.mark.mindspore
def test_llama3_8b_has_the_published_number_of_parameters() -> None:
    cell = build_workload("llama3-8b-train", with_values=False).cell
    # reference/models.md, section 1: 8,030,261,248
    assert sum(int(np.prod(p.shape)) for p in cell.network.trainable_params()) == 8_030_261_248


@pytest.mark.mindspore
def test_building_twice_gives_the_same_weights() -> None:
    first, second = (build_workload("tiny").cell.network.trainable_params() for _ in range(2))
    assert [p.asnumpy().tobytes() for p in first] == [p.asnumpy().tobytes() for p in second]


@pytest.mark.mindspore
def test_decoding_token_by_token_gives_what_reading_the_whole_text_gives() -> None:
    """Up to rounding; and without the tokens before it in the caches, a token's logits are others."""
    decode, prefill = build_workload("tiny-decode"), build_workload("tiny-prefill")
    weights = {p.name: p.data for p in prefill.cell.get_parameters()}
    caches = [p for p in decode.cell.get_parameters() if p.name not in weights]
    for parameter in decode.cell.get_parameters():
        if parameter.name in weights:
            parameter.set_data(weights[parameter.name])
    whole = prefill.cell(*prefill.inputs).asnumpy()
    steps = [decode.cell(*batch).asnumpy()[:, 0] for batch in decode.batches]
    for position, logits in enumerate(steps):
        assert np.allclose(logits, whole[:, position], atol=1e-5)
    for cache in caches:
        cache.set_data(cache.data * 0)
    forgetful = decode.cell(*decode.batches[-1]).asnumpy()[:, 0]
    assert not np.allclose(forgetful, steps[-1], atol=1e-3)
