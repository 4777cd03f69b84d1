"""A schedule inside MindSpore: bit-identical steps, parameters as ever, and a way back."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

import hyperoffload as ho
from hyperoffload_core.errors import UserError
from hyperoffload_core.mindspore_plugin.attach import AttachError, attach
from hyperoffload_core.mindspore_plugin.kernels import Region
from hyperoffload_core.mindspore_plugin.parameters import Owned
from hyperoffload_core.schedule import Schedule, write_schedule
from hyperoffload_core.workloads import build_workload
from tests.attach_models import WIDTH, batches, halves, net, token_batches, training, training_function

pytestmark = [pytest.mark.mindspore, pytest.mark.usefixtures("in_graph_mode")]
LIMIT, LINK = "65%", "2GB/s"


def compiled(step: Any, inputs: Any, limit: str = LIMIT) -> Schedule:
    policy = ho.Policy(options={"effort": "fast"})
    return ho.compile(step, inputs, policy=policy, limit=limit, hardware="ascend-910b", link_bandwidth=LINK)


@cache
def training_schedule() -> Schedule:
    return compiled(training(), batches()[0])


def bits(result: Any) -> bytes:
    return b"".join(map(bits, result)) if isinstance(result, tuple | list) else result.asnumpy().tobytes()


def run(step: Any, inputs: Sequence[Any], count: int = 3) -> list[bytes]:
    return [bits(step(*inputs[n % len(inputs)])) for n in range(count)]


def values(parameters: Any) -> dict[str, bytes]:
    found: Iterable[Any] = parameters.get_parameters() if hasattr(parameters, "get_parameters") else parameters
    return {p.name: p.asnumpy().tobytes() for p in found}


@cache
def plain_training(count: int = 3) -> tuple[list[bytes], dict[str, bytes]]:
    step = training()
    return run(step, batches(), count), values(step)


def same_bits(build: Callable[[], Any], inputs: Sequence[Any], limit: str) -> None:
    plain = build()
    expected = run(plain, inputs), values(plain)
    schedule = compiled(plain, inputs[0], limit)
    for random_delay_ns in (0, 2_000_000):
        step = build()
        attached = attach(step, schedule, random_delay_ns=random_delay_ns)
        assert (run(step, inputs), values(step)) == expected
        assert attached.session is not None and attached.session.stats().bytes_in > 0
        ho.detach(step)


@pytest.mark.parametrize(("name", "limit"), [("tiny", "60%"), ("tiny-prefill", "70%"), ("tiny-decode", "70%")])
def test_results_and_parameters_of_workloads_are_the_same_bits_whatever_copies_take(name: str, limit: str) -> None:
    same_bits(lambda: build_workload(name).cell, build_workload(name).batches, limit)


def test_results_and_parameters_in_float16_are_the_same_bits() -> None:
    same_bits(halves, token_batches(), "60%")


def test_detached_it_goes_on_as_if_nothing_had_been() -> None:
    step = training()
    expected = plain_training(6)
    ho.attach(step, training_schedule())
    losses = run(step, batches())
    moved = [p.data_ptr() for p in step.get_parameters()]
    ho.detach(step)
    assert [p.data_ptr() for p in step.get_parameters()] != moved, "the memory is MindSpore's again"
    assert values(step) == plain_training()[1]
    losses += run(step, batches())
    assert (losses, values(step)) == expected
    assert not {"compile", "compile_and_run"} & vars(step).keys()


def test_a_checkpoint_saved_under_a_schedule_is_the_plain_one_and_a_loaded_one_is_taken_over(tmp_path: Path) -> None:
    step, plain = training(), training()
    run(plain, batches())
    ho.attach(step, training_schedule())
    run(step, batches())
    for name, cell in (("plain", plain), ("attached", step)):
        ms.save_checkpoint(cell, str(tmp_path / name))
    saved = [ms.load_checkpoint(str(tmp_path / f"{name}.ckpt")) for name in ("plain", "attached")]
    assert values(saved[0].values()) == values(saved[1].values())
    run(step, batches())
    ms.load_param_into_net(step, saved[0])
    assert values(step) == plain_training()[1]
    assert run(step, batches()) == run(plain, batches())
    assert values(step) == values(plain)
    ho.detach(step)


def test_what_python_assigns_between_steps_counts() -> None:
    step, plain = training(), training()
    ho.attach(step, training_schedule())
    for cell in (step, plain):
        run(cell, batches(), 1)
        for parameter in cell.network.trainable_params():
            if parameter.ndim == 2:
                parameter.set_data(Tensor(np.full(parameter.shape, 0.01, np.float32)))
            else:
                ms.ops.assign(parameter, Tensor(np.full(parameter.shape, 0.5), parameter.dtype))
    assert run(step, batches()) == run(plain, batches())
    assert values(step) == values(plain)
    ho.detach(step)


def test_a_parameter_of_another_shape_is_refused() -> None:
    step = training()
    attached = ho.attach(step, training_schedule())
    run(step, batches(), 1)
    moved = attached.owned[0].parameter
    shape = moved.shape
    moved.set_data(Tensor(np.zeros((1, *shape[1:]), np.float32)), slice_shape=True)
    with pytest.raises(AttachError, match=r"was given the shape \(1.*; detach, and compile the schedule again"):
        step(*batches()[0])
    moved.set_data(Tensor(np.zeros(shape, np.float32)), slice_shape=True)
    run(step, batches(), 1)
    ho.detach(step)


def test_several_cells_in_one_process_also_with_the_same_weights() -> None:
    step, other, reader = training(), training(), net()
    inference = compiled(reader, batches()[0][:1], "80%")
    expected = bits(reader(batches()[0][0]))
    network = step.network.backbone_network
    for cell, schedule in ((step, training_schedule()), (other, training_schedule()), (network, inference)):
        ho.attach(cell, schedule)
    assert bits(network(batches()[0][0])) == expected
    for inputs in batches():
        assert bits(step(*inputs)) == bits(other(*inputs))
        network(inputs[0])
    assert (values(step), values(other)) == (plain_training()[1], plain_training()[1])
    plain = training()
    run(plain, batches())
    assert bits(network(batches()[0][0])) == bits(plain.network.backbone_network(batches()[0][0]))
    for cell in (step, other, network):
        ho.detach(cell)
    assert values(step) == plain_training()[1]


def test_other_shapes_later_run_without_a_schedule_and_say_so() -> None:
    step, plain = training(), training()
    ho.attach(step, training_schedule())
    (x, y), small = batches()[0], batches(8, 1)[0]
    assert bits(step(x, y)) == bits(plain(x, y))
    with pytest.warns(UserWarning, match=r"other inputs .*8, 96.* run without a schedule"):
        assert bits(step(*small)) == bits(plain(*small))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bits(step(*small)) == bits(plain(*small))
        assert bits(step(x, y)) == bits(plain(x, y))
    assert values(step) == values(plain)
    ho.detach(step)


class WithMore(nn.Cell):
    """What it computes depends on an argument that is no tensor, which only a call tells."""

    def __init__(self) -> None:
        super().__init__()
        self.net = net()

    def construct(self, x, twice=False):  # type: ignore[no-untyped-def]
        return ops.tanh(self.net(x)) * 2 if twice else self.net(x)


@pytest.mark.parametrize(
    ("cell", "inputs", "said"),
    [
        (lambda: training("SGD"), batches()[0], "the schedule.s is|ops, the schedule"),
        (lambda: net(), batches()[0][:1], "the cell takes 1 inputs, the schedule was made for 2"),
    ],
    ids=["another optimizer", "another model"],
)
def test_another_model_than_the_schedules_is_refused_when_it_is_attached(cell: Any, inputs: Any, said: str) -> None:
    step = cell()
    before = values(step)
    with pytest.raises(AttachError, match=said) as error:
        ho.attach(step, training_schedule())
    assert "compile the schedule again" in str(error.value) and "\n" not in str(error.value)
    assert values(step) == before
    assert bits(step(*inputs)) == bits(cell()(*inputs))


def test_another_shape_is_refused_by_the_call_and_does_not_spoil_the_next() -> None:
    step = training()
    before = values(step)
    ho.attach(step, training_schedule())
    said = r"called with 2 inputs \(float32\[32, 96\].*, the schedule .* 2 inputs \(float32\[64, 96\].*\); compile the"
    with pytest.raises(AttachError, match=said) as error:
        step(*batches(32, 1)[0])
    assert "\n" not in str(error.value)
    assert values(step) == before
    assert (run(step, batches()), values(step)) == plain_training()
    ho.detach(step)


def test_what_depends_on_arguments_that_are_no_tensors_is_found_by_the_call() -> None:
    cell, x = WithMore(), batches()[0][0]
    expected = bits(cell(x, True))
    ho.attach(cell, compiled(cell, (x, True), "80%"))
    with pytest.raises(AttachError, match="the schedule"):
        cell(x)
    assert bits(cell(x, True)) == expected
    ho.detach(cell)


def test_a_schedule_for_fewer_inputs_is_warned_of_when_it_is_attached_and_refused_by_the_call() -> None:
    """GIVEN a schedule for the network alone and the step that trains it THEN attach says what may be wrong: the others
    may be no tensors, which only the call can tell."""
    step, (x, y) = training(), batches()[0]
    with pytest.warns(UserWarning, match="the cell takes 2 inputs, the schedule was made for 1: unless the others"):
        ho.attach(step, compiled(net(), x, "90%"))
    with pytest.raises(AttachError, match=r"is called with 2 inputs \(.*\), the schedule was made for 1 input \("):
        step(x, y)
    ho.detach(step)


def test_shapes_set_for_the_cell_are_held_against_the_schedule_when_it_is_attached() -> None:
    step, (x, y) = training(), batches(32, 1)[0]
    step.set_inputs(x, y)
    with pytest.raises(AttachError, match=r"has 2 inputs \(float32\[32, 96\].*, the schedule was made for 2 inputs \("):
        ho.attach(step, training_schedule())
    again = training()
    again.set_inputs(*batches()[0])
    ho.attach(again, training_schedule())
    assert run(again, batches()) == plain_training()[0]
    ho.detach(again)


def test_a_cell_that_is_changed_once_it_is_attached_is_met_by_the_call_as_it_is() -> None:
    dropping = nn.SequentialCell(nn.Dense(WIDTH, WIDTH), nn.Dropout(p=0.5), nn.Dense(WIDTH, WIDTH)).set_train(False)
    x = batches()[0][0]
    expected = bits(dropping(x))
    schedule = compiled(dropping, x, "90%")
    ho.attach(dropping, schedule)
    dropping.set_train()
    with pytest.raises(AttachError, match="compile the schedule again"):
        dropping(x)
    dropping.set_train(False)
    assert bits(dropping(x)) == expected
    ho.detach(dropping)


def test_shapes_left_open_are_refused_when_it_is_attached() -> None:
    step = training()
    step.set_inputs(Tensor(shape=[None, WIDTH], dtype=ms.float32), Tensor(shape=[None, WIDTH], dtype=ms.float32))
    with pytest.raises(AttachError, match="TrainOneStepCell has inputs whose shape set_inputs leaves open"):
        ho.attach(step, training_schedule())


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE], ids=["graph mode", "PyNative mode"])
def test_a_jit_function_runs_by_what_attach_returns(mode: int) -> None:
    ms.set_context(mode=mode)
    function, parameters = training_function()
    expected = run(function, batches()), values(parameters)
    function, parameters = training_function()
    step = ho.attach(function, compiled(function, batches()[0]))
    x, y = batches()[2]
    assert ([*run(step, batches(), 2), bits(step(y=y, x=x))], values(parameters)) == expected
    assert step.session.stats().bytes_in > 0
    assert ms.get_context("mode") == mode
    ho.detach(function)
    assert values(parameters) == expected[1]
    again, others = training_function()
    assert run(again, batches()) == expected[0]
    assert bits(step(x, y)) == bits(again(x, y)), "what attach returned goes on as the function"
    assert values(parameters) == values(others)


class Owner:
    def __init__(self) -> None:
        self.net = net()

    @ms.jit
    def twice(self, x):  # type: ignore[no-untyped-def]
        return self.net(x) * 2


def test_a_jit_method_is_attached_and_detached_by_its_name() -> None:
    owner, x = Owner(), batches()[0][0]
    expected = bits(owner.twice(x))
    step = ho.attach(owner.twice, compiled(owner.twice, x, "80%"))
    assert bits(step(x)) == expected
    assert step.session is not None and step.session.stats().bytes_in > 0
    ho.detach(owner.twice)
    assert bits(owner.twice(x)) == expected


def test_functions_compiled_before_go_on_with_the_parameters_while_attached_and_afterwards() -> None:
    (function, parameters), (plain, expected), step = training_function(), training_function(), training()

    @ms.jit
    def reads(x: Tensor) -> Tensor:
        return step.network.backbone_network(x)

    assert run(function, batches()) == run(plain, batches())
    attached = ho.attach(function, compiled(function, batches()[0]))
    assert run(attached, batches()) == run(plain, batches())
    assert run(function, batches()) == run(plain, batches())
    ho.detach(function)
    assert run(function, batches()) == run(plain, batches())
    assert values(parameters) == values(expected)

    x = batches()[0][0]
    seen = [bits(reads(x))]
    ho.attach(step, training_schedule())
    for leave in (lambda: None, lambda: ho.detach(step)):
        leave()
        run(step, batches())
        seen.append(bits(reads(x)))
        assert seen[-1] == bits(step.network.backbone_network(x))
    assert len(set(seen)) == 3


def test_a_schedule_made_for_graph_mode_moves_only_what_can_move_there() -> None:
    step, fast = training(), ho.Policy(options={"effort": "fast"}, rules=[{"name": "*", "action": "offload"}])
    both = [
        ho.compile(
            step, batches()[0], policy=fast, limit="80%", hardware="ascend-910b", link_bandwidth=LINK, graph_mode=way
        )
        for way in (False, True)
    ]
    for schedule, stays in zip(both, (True, False), strict=True):
        attached = ho.attach(step, schedule)
        run(step, batches(), 1)
        assert bool(attached.inserted.stays) == stays
        ho.detach(step)
    assert any("that cannot move: an input, which the caller holds" in note for note in both[1].notes)
    with pytest.raises(UserError, match="for graph mode give the cell or function"):
        ho.compile(ho.capture(step, batches()[0]), graph_mode=True)


def test_a_saved_schedule_and_a_pool_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "step.json.gz"
    write_schedule(training_schedule(), path)
    step = training()
    ho.attach(step, str(path), pool_folder=tmp_path, paced=False)
    assert (run(step, batches()), values(step)) == plain_training()
    assert list(tmp_path.iterdir()) == [path], "the pool's file has no name"
    ho.detach(step)


def test_what_does_not_go_is_said_in_one_sentence() -> None:
    step = training()
    with pytest.raises(UserError, match="TrainOneStepCell has no schedule to detach"):
        ho.detach(step)
    ho.attach(step, training_schedule())
    with pytest.raises(UserError, match="TrainOneStepCell has a schedule already"):
        ho.attach(step, training_schedule())
    ho.detach(step)
    with pytest.raises(UserError, match="a cell or a function can be given, not an int"):
        ho.attach(3, training_schedule())
    with pytest.raises(UserError, match="not a value of type int"):
        ho.attach(step, 3)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="input 0 is a numpy array"):
        ho.compile(step, batches()[0][0].asnumpy())
    with pytest.raises(UserError, match="needs its inputs"):
        ho.compile(step)
    ms.set_context(mode=ms.PYNATIVE_MODE)
    with pytest.raises(UserError, match="needs graph mode; call"):
        ho.attach(step, training_schedule())
    function, _ = training_function()
    attached = ho.attach(function, compiled(function, batches()[0]))
    with pytest.raises(UserError, match="step cannot be called like this: missing a required argument: 'y'"):
        attached(batches()[0][0])
    ho.detach(attached)


@pytest.mark.parametrize("place", ["taking parameters", "a step", "behind a step"])
def test_an_interrupted_call_leaves_the_parameters_and_the_next_runs_under_the_schedule(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses, parameters = plain_training()
    step = training()
    attached = ho.attach(step, training_schedule())
    before = values(step)
    owner, name = {
        "taking parameters": (Region, "to_pool"),
        "a step": (Owned, "adopt"),
        "behind a step": (nn.Cell, "compile_and_run"),
    }[place]
    called, calls = getattr(owner, name), 0

    def interrupted(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        result = called(*args)
        if calls == 2:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(owner, name, interrupted)
    done = 0
    with pytest.raises(KeyboardInterrupt):
        while done < 2:
            step(*batches()[done])
            done += 1
    monkeypatch.undo()
    done += place == "behind a step"
    assert done or values(step) == before
    assert [bits(step(*batches()[n])) for n in range(done, 3)] == losses[done:]
    assert values(step) == parameters
    assert attached.session is not None and attached.session.stats().bytes_in > 0
    ho.detach(step)


def test_a_failed_step_is_one_sentence_and_the_next_call_runs_under_the_schedule_again() -> None:
    losses, parameters = plain_training()
    step = training()
    before = values(step)
    attached = attach(step, training_schedule(), random_delay_ns=50_000_000)
    step.compile(*batches()[0])
    session, failed = attached.session, threading.Event()
    assert session is not None

    def abandon() -> None:
        while not failed.wait(0.005):  # between steps there is nothing to abandon
            session.abandon()

    stopper = threading.Thread(target=abandon)
    stopper.start()
    attached.release, release = lambda: (failed.set(), stopper.join(), release()), attached.release
    with pytest.raises(AttachError, match="the step stopped: "):
        for _ in range(20):
            step(*batches()[0])
    attached.release = release
    for parameter in step.get_parameters():
        parameter.set_data(
            Tensor(np.frombuffer(before[parameter.name], parameter.asnumpy().dtype).reshape(parameter.shape))
        )
    assert attached.session is None
    assert (run(step, batches()), values(step)) == (losses, parameters)
    ho.detach(step)
