"""Capture: what a graph says about a model, and that its ops, run one by one, give what MindSpore gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyperoffload_core.capture import CaptureError, capture, load_source
from hyperoffload_core.ir import Graph, Op
from hyperoffload_core.program import CapturedModel
from hyperoffload_core.workloads import build_workload

pytestmark = pytest.mark.mindspore
MODELS = Path(__file__).parent / "models"

# Every kind of cell and of optimizer that MindSpore itself runs on CPU.
RUNNABLE = [
    "convnet.py:build",
    "transformer.py:build",
    "recurrent.py:build",
    "mlp.py:half",
    "inference.py:decode",
    "inference.py:several",
    "inference.py:counting",
    "functions.py:build",
    "inference.py:in_place",
    "inference.py:slices",
    "inference.py:views",
    *(
        f"optimizers.py:{name}"
        for name in (
            "sgd",
            "momentum",
            "adam",
            "amsgrad",
            "rmsprop",
            "centered_rmsprop",
            "adagrad",
            "ftrl",
            "adadelta",
            "adamax",
        )
    ),
]


def model_of(reference: str) -> CapturedModel:
    cell, inputs = load_source(str(MODELS / reference))
    return capture(cell, inputs)


@pytest.fixture(scope="module")
def tiny() -> CapturedModel:
    workload = build_workload("tiny")
    return capture(workload.cell, workload.inputs, name="tiny")


def assert_same_as_graph_mode(cell: Any, batches: list[Any]) -> None:
    """Two steps op by op and in graph mode: every result and every parameter bit for bit."""
    import mindspore as ms
    from op_by_op import OpByOp

    run = OpByOp(capture(cell, batches[0]))
    ms.set_context(mode=ms.GRAPH_MODE)
    for batch in batches:
        expected = flat(cell(*batch))
        results = run.step(batch)
        assert len(results) == len(expected)
        for result, tensor in zip(results, expected, strict=True):
            assert result.shape == tensor.shape
            assert result.tobytes() == tensor.asnumpy().tobytes()
        after = {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}
        different = [name for name, data in run.parameters().items() if data.tobytes() != after[name]]
        assert not different


def flat(value: Any) -> list[Any]:
    return [t for v in value for t in flat(v)] if isinstance(value, tuple | list) else [value]


@pytest.mark.parametrize("reference", RUNNABLE)
def test_ops_run_one_by_one_give_what_graph_mode_gives(reference: str) -> None:
    cell, inputs = load_source(str(MODELS / reference))
    assert_same_as_graph_mode(cell, [inputs, inputs])


@pytest.mark.parametrize("name", ["tiny", "tiny-prefill", "tiny-decode"])
def test_workloads_give_what_graph_mode_gives(name: str) -> None:
    workload = build_workload(name)
    assert_same_as_graph_mode(workload.cell, list(workload.batches[:2]))


def test_the_hash_is_the_same_in_a_new_process(tiny: CapturedModel) -> None:
    code = (
        "from hyperoffload_core.capture import capture; from hyperoffload_core.workloads import build_workload as b;"
        "w = b('tiny', with_values=False); print(capture(w.cell, w.inputs, with_values=False).graph.hash)"
    )
    new = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()[-1]
    assert new == tiny.graph.hash
    assert len(new) == 64


def test_capture_with_and_without_values_is_the_same_graph(tiny: CapturedModel) -> None:
    workload = build_workload("tiny", with_values=False)
    bare = capture(workload.cell, workload.inputs, with_values=False)
    assert bare.values == {}
    assert bare.graph.hash == tiny.graph.hash


def test_values_exist_for_all_that_exists_at_the_start(tiny: CapturedModel) -> None:
    graph = tiny.graph
    assert set(tiny.values) == {s.id for s in graph.storages if graph.exists_at_start(s.id)}
    for storage, value in tiny.values.items():
        assert value.flags.c_contiguous
        assert value.nbytes == graph.storages[storage].bytes


def test_classes_and_phases_of_a_training_step(tiny: CapturedModel) -> None:
    graph = tiny.graph
    by_class = {
        c: [s.name for s in graph.storages if s.tensor_class == c] for c in {s.tensor_class for s in graph.storages}
    }
    parameters = build_workload("tiny", with_values=False).cell.network.trainable_params()
    assert sorted(by_class["weight"]) == sorted(p.name for p in parameters)
    assert {"adam_m.decoder.head.weight", "global_step", "learning_rate"} <= set(by_class["optimizer_state"])
    assert len(by_class["input"]) == 2
    assert len(by_class["output"]) == 1
    assert {o.phase for o in graph.ops} == {"forward", "backward", "optimizer"}
    updates = [o for o in graph.ops if o.primitive == "AdamWeightDecay"]
    assert len(updates) == len(parameters)
    assert {o.phase for o in updates} == {"optimizer"}


def test_an_update_waits_for_its_gradient_and_no_other_update(tiny: CapturedModel) -> None:
    ops = tiny.graph.ops
    for update in (o for o in ops if o.primitive == "AdamWeightDecay"):
        assert {ops[n].primitive for n in update.after}.isdisjoint({"AdamWeightDecay"})
        assert any(ops[n].phase == "backward" for n in update.after)


def test_an_update_waits_for_every_reader_of_its_weight(tiny: CapturedModel) -> None:
    graph = tiny.graph
    (weight,) = (s.id for s in graph.storages if s.name == "decoder.blocks.1.feed_forward.up.weight")
    (update,) = (o for o in graph.ops if weight in o.writes)
    readers = {o.id for o in graph.ops if weight in o.reads and o is not update}
    assert len(readers) == 2  # forward, and backward for the gradient of the input
    assert readers <= set(update.after)


def test_weight_gradients_are_computed_where_backpropagation_meets_them(tiny: CapturedModel) -> None:
    """Not beside the update, as MindIR writes them: that would keep every activation to the end of the step."""
    graph = tiny.graph
    assert max(o.id for o in graph.ops if o.phase == "forward") < min(o.id for o in graph.ops if o.phase == "backward")
    gradient_of_last = producer(graph, "decoder.head.weight")
    gradient_of_first = producer(graph, "decoder.blocks.0.feed_forward.down.weight")
    first_update = min(o.id for o in graph.ops if o.primitive == "AdamWeightDecay")
    assert gradient_of_last.id < gradient_of_first.id < first_update


def producer(graph: Graph, weight: str) -> Op:
    """The op that computes the weight's gradient."""
    (update,) = (o for o in graph.ops if any(graph.storages[s].name == weight for s in o.writes))
    (gradient,) = (s for s in update.reads if graph.storages[s].tensor_class == "gradient")
    return next(o for o in graph.ops if gradient in o.writes)


def test_layer_scopes_name_the_layer_even_where_mindspore_does_not(tiny: CapturedModel) -> None:
    graph = tiny.graph
    softmaxes = [o for o in graph.ops if o.primitive == "Softmax"]
    assert ["0-Block" in o.scope for o in softmaxes] == [True, False]
    assert ["1-Block" in o.scope for o in softmaxes] == [False, True]
    backward = [o.scope for o in graph.ops if o.primitive == "SoftmaxBackward"]
    assert ["1-Block" in s for s in backward] == [True, False]
    assert all(s.startswith("Gradients/Default/") for s in backward)


def test_names_are_unique_and_readable(tiny: CapturedModel) -> None:
    names = [o.name for o in tiny.graph.ops]
    assert len(set(names)) == len(names)
    assert "decoder.blocks.0.attention.query/MatMul" in names
    assert "optimizer.decoder.head.weight/AdamWeightDecay" in names
    storages = [s.name for s in tiny.graph.storages]
    assert len(set(storages)) == len(storages)


def test_matrix_products_are_counted_exactly(tiny: CapturedModel) -> None:
    query = next(o for o in tiny.graph.ops if o.name == "decoder.blocks.0.attention.query/MatMul")
    assert query.flops == 2 * (2 * 32) * 64 * 64  # two sequences of 32 tokens, hidden size 64
    scores = next(o for o in tiny.graph.ops if o.primitive == "MatMulExt")
    assert scores.flops == 2 * 2 * 4 * 32 * 32 * 16  # batch, heads, queries, keys, head size


def test_views_and_in_place_updates_share_a_storage() -> None:
    graph = model_of("inference.py:in_place").graph
    (state,) = (s.id for s in graph.storages if s.name == "state")
    (add,) = (o for o in graph.ops if o.primitive == "InplaceAddExt")
    assert state in add.reads
    assert add.writes == (state,)


def test_parameters_updated_in_place_outside_an_optimizer_are_caches_by_name() -> None:
    caches = [s for s in model_of("inference.py:decode").graph.storages if s.tensor_class == "kv_cache"]
    assert [s.name for s in caches] == ["key_cache", "value_cache"]
    assert all(s.persistent for s in caches)


@pytest.mark.parametrize(("name", "phase"), [("tiny-prefill", "prefill"), ("tiny-decode", "decode")])
def test_an_inference_step_is_prefill_or_decode_as_a_whole(name: str, phase: str) -> None:
    workload = build_workload(name, with_values=False)
    graph = capture(workload.cell, workload.inputs, with_values=False).graph
    assert {o.phase for o in graph.ops} == {phase}
    assert "gradient" not in {s.tensor_class for s in graph.storages}


def test_a_decode_step_reads_and_writes_its_caches_in_place() -> None:
    workload = build_workload("tiny-decode", with_values=False)
    graph = capture(workload.cell, workload.inputs, with_values=False).graph
    caches = {s.id: s for s in graph.storages if s.tensor_class == "kv_cache"}
    assert sorted(s.name for s in caches.values()) == [
        f"blocks.{layer}.attention.{kind}_cache" for layer in range(2) for kind in ("key", "value")
    ]
    for cache in caches.values():
        assert cache.persistent
        update, reader = (o for o in graph.ops if cache.id in o.reads)
        assert update.primitive == "ScatterUpdate"
        assert update.writes == (cache.id,)
        assert update.id in reader.after


def test_a_parameter_read_before_its_update_is_read_before_its_update() -> None:
    graph = model_of("inference.py:counting").graph
    (count,) = (s.id for s in graph.storages if s.name == "count")
    first_write = min(o.id for o in graph.ops if count in o.writes)
    assert any(count in o.reads and o.id < first_write for o in graph.ops)


def test_results_nobody_reads_still_have_bytes() -> None:
    captured = model_of("convnet.py:build")
    norm = next(o for o in captured.graph.ops if o.primitive == "BatchNorm")
    call = captured.program.calls[norm.id]
    assert None in call.outputs
    assert len(set(norm.writes)) > sum(o is not None for o in call.outputs)


def test_random_ops_keep_their_order_and_are_noted() -> None:
    graph = model_of("mlp.py:dropout").graph
    first, second = (o for o in graph.ops if o.primitive == "Dropout")
    assert first.id in second.after
    assert graph.notes == ("Dropout draw random numbers: two runs differ, with or without offload",)


def test_a_cell_is_captured_as_it_is_now_whether_training_or_not() -> None:
    cell, inputs = load_source(str(MODELS / "mlp.py:dropout"))
    network = cell.network
    for training in (False, True, False):
        primitives = {op.primitive for op in capture(network.set_train(training), inputs).graph.ops}
        assert ("Dropout" in primitives) == training


def test_capture_leaves_the_cell_and_the_folder_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mindspore as ms

    monkeypatch.chdir(tmp_path)
    cell, inputs = load_source(str(MODELS / "convnet.py:build"))
    before = {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()}
    mode = ms.get_context("mode")
    capture(cell, inputs)
    with pytest.raises(CaptureError):
        model_of("mistakes.py:wrong_shapes")
    assert {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()} == before
    assert ms.get_context("mode") == mode
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("reference", "sentence"),
    [
        ("mistakes.py", "names no model; write FILE.py:FUNCTION"),
        ("missing.py:build", "missing.py: no such file"),
        ("mistakes.py:nothing", r"has no function 'nothing'; it has raises, returns_a_number"),
        ("mistakes.py:not_a_function", "has no function 'not_a_function'"),
        ("functions.py:step_of", r"takes arguments \(x, y\); name a function that takes none and returns the step"),
        ("mistakes.py:raises", r"raised KeyError: 'weights.ckpt' \(line 13\)"),
        ("mistakes.py:returns_a_number", r"returned a value of type int; return \(cell, inputs\)"),
        ("mistakes.py:returns_no_cell", r"returned a tuple of 2 \(str, tuple\)"),
        ("mistakes.py:wrong_shapes", r"MindSpore cannot compile WrongShapes: For 'MatMulExt' op, .* \(mistakes.py:9\)"),
        ("inference.py:branching", "control flow that depends on tensor values cannot be captured"),
        ("inference.py:through_columns", "writes in place through the strided view"),
        ("mlp.py:lost_update", r"ApplyRMSProp cannot update 'second.weight' \(float16\) in place on CPU"),
    ],
)
def test_mistakes_get_one_sentence(reference: str, sentence: str) -> None:
    with pytest.raises(CaptureError, match=sentence) as caught:
        model_of(reference)
    assert "\n" not in str(caught.value)


def test_a_file_with_a_syntax_error_names_the_line(tmp_path: Path) -> None:
    file = tmp_path / "broken_model.py"
    file.write_text("x = 1\ndef build(:\n")
    with pytest.raises(CaptureError, match=r"broken_model.py cannot be imported: SyntaxError: .* \(line 2\)"):
        load_source(f"{file}:build")


def test_a_model_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "my_neighbour_layers.py").write_text("from mindspore import nn\n\nmake = lambda: nn.Dense(2, 2)\n")
    (tmp_path / "my_model.py").write_text(
        "import numpy as np\nfrom mindspore import Tensor\nfrom my_neighbour_layers import make\n\n"
        "def build():\n    return make(), Tensor(np.ones((1, 2), np.float32))\n"
    )
    cell, inputs = load_source(f"{tmp_path / 'my_model.py'}:build")
    assert len(capture(cell, inputs).inputs) == len(inputs) == 1
    assert np.array_equal(inputs[0].asnumpy(), np.ones((1, 2)))


def test_tensors_inside_a_tuple_are_refused_because_mindspore_would_freeze_them() -> None:
    from mindspore import Tensor, nn

    class Sum(nn.Cell):
        def construct(self, pair: Any) -> Any:
            return pair[0] + pair[1]

    with pytest.raises(CaptureError, match="input 0 is a tuple"):
        capture(Sum(), ((Tensor([1.0]), Tensor([2.0])),))


def test_a_fused_half_precision_step_is_captured_without_weights() -> None:
    """The 8B workload with one layer and a small vocabulary: kernels of Ascend, float32 moments, grouped heads."""
    from dataclasses import replace

    from mindspore import Tensor

    from hyperoffload_core.workloads.decoders import training_step, without_weights
    from hyperoffload_core.workloads.llama import LLAMA3_8B

    config = replace(LLAMA3_8B, layers=1, vocabulary=512)
    with without_weights():
        cell = training_step(config)
    tokens = Tensor(np.zeros((1, config.sequence), np.int32))
    graph = capture(cell, (tokens, tokens), with_values=False).graph
    attention = next(o for o in graph.ops if o.primitive == "FlashAttentionScore")
    # Two products of 32 heads, 4096 x 4096 x 128, half of it masked.
    assert attention.flops == 2 * 2 * 32 * 4096 * 4096 * 128 // 2
    assert [graph.storages[s].shape for s in attention.reads][:3] == [
        (1, 32, 4096, 128),
        (1, 8, 4096, 128),
        (1, 8, 4096, 128),
    ]
    assert {s.dtype for s in graph.storages if s.tensor_class == "weight"} == {"bfloat16"}
    moments = [s for s in graph.storages if s.name.startswith("adam_")]
    assert {s.dtype for s in moments} == {"float32"}
    assert len([o for o in graph.ops if o.primitive == "AdamWeightDecay"]) * 2 == len(moments)


def test_a_decode_step_of_the_8b_model_is_captured_without_weights() -> None:
    """With one layer and a small vocabulary: the kernels of Ascend, a full context of 131,072 in 16-bit caches."""
    from dataclasses import replace

    from mindspore import Tensor

    from hyperoffload_core.workloads.decode import DecodeStep
    from hyperoffload_core.workloads.decoders import LLAMA3_8B_DECODE, without_weights

    with without_weights():
        cell = DecodeStep(replace(LLAMA3_8B_DECODE, layers=1, vocabulary=512)).set_train(False)
    inputs = (Tensor(np.zeros((1, 1), np.int32)), Tensor(np.zeros(1, np.int32)))
    graph = capture(cell, inputs, with_values=False).graph
    caches = {s.id: s for s in graph.storages if s.tensor_class == "kv_cache"}
    # reference/models.md, section 1: 4,096 bytes per token and layer
    assert sum(s.bytes for s in caches.values()) == 131_072 * 4096
    assert {s.dtype for s in caches.values()} == {"bfloat16"}
    (update,) = (o for o in graph.ops if caches.keys() & set(o.writes))
    (attention,) = (o for o in graph.ops if caches.keys() & set(o.reads) and o is not update)
    assert (update.primitive, attention.primitive) == ("ReshapeAndCache", "PagedAttention")
    assert caches.keys() <= set(attention.reads)
    assert update.id in attention.after
    # Scores and weighted sum: 32 heads of 128 against every token of the context.
    assert attention.flops == 2 * 2 * 32 * 128 * 131_072
    assert {o.phase for o in graph.ops} == {"decode"}
