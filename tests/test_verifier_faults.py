"""Each way of being wrong, put into valid schedules, is caught under its own rule; no valid schedule is refused."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyperoffload_core
from hyperoffload_core.passes.recomputation import Recomputation, recompute
from hyperoffload_core.policy import match_rules, policy_from_document, policy_to_document
from hyperoffload_core.schedule import Schedule, Transfer
from hyperoffload_core.verifier import Rule, verify, violations
from tests.faults import FAULTS, MOVING, Fault
from tests.faults_of_keeping import some_rule_for, with_rule
from tests.graphs import GraphBuilder
from tests.naive_schedule import naive_schedule
from tests.slow_events import breaks
from tests.valid_schedules import SOURCES, STRATEGIES, valid_schedule

SEEDS = 24
CORE = Path(hyperoffload_core.__file__).parent


CASES = [pytest.param(f, source, id=f"{f} ({f.rule}) {source}") for f in FAULTS for source in f.sources]


@pytest.mark.parametrize(("fault", "source"), CASES)
def test_a_fault_is_caught_under_its_rule(fault: Fault, source: str) -> None:
    @settings(max_examples=4, deadline=None)
    @given(st.integers(0, SEEDS - 1), st.randoms(use_true_random=False))
    def caught(first: int, random: Random) -> None:
        seeds = ((first + n) % SEEDS for n in range(SEEDS))
        damaged = next((d for d in (fault.damage(random, valid_schedule(source, s)) for s in seeds) if d), None)
        if damaged is None and source in STRATEGIES:
            pytest.skip("at present no schedule of this strategy has a place for this fault")
        assert damaged is not None
        found = violations(damaged)
        assert fault.rule in {v.rule for v in found if v.form == fault.form}, [f"{v.rule} {v.form}: {v}" for v in found]
        if fault.form == "events" and fault.rule != "deadlock":
            assert {v.form for v in found} == {"events"}

    caught()


def leaves(s: Schedule, storage: int) -> bool:
    """Whether a storage is moved, freed in between, or in the pool when the step starts."""
    from_pool = s.graph.exists_at_start(storage) and s.homes[storage] == "pool"
    stays = sum(r.storage == storage for r in s.residencies)
    needed = stays > 0 or s.graph.lives_to_end(storage)
    return any(t.storage == storage for t in s.transfers) or stays > 1 or (from_pool and needed)


@pytest.mark.parametrize("source", MOVING)
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, SEEDS - 1), random=st.randoms(use_true_random=False))
def test_what_cannot_move_must_not_move(source: str, seed: int, random: Random) -> None:
    """GIVEN a valid schedule WHEN some storage cannot move where it is to run THEN that is a violation if it moves, and
    the reason is said."""
    schedule = valid_schedule(source, seed)
    storage = random.choice(schedule.graph.storages).id
    found = violations(schedule, fixed={storage: "a constant of the graph"})
    assert [(v.rule, v.storage) for v in found] == [("keep", s) for s in (storage,) if leaves(schedule, s)]
    assert all("although it cannot move: a constant of the graph" in str(v) for v in found)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, SEEDS - 1))
def test_the_verifier_reads_rules_as_the_compiler_does(random: Random, seed: int) -> None:
    """GIVEN rules of every kind THEN just the storages are held to be kept for which the first rule says so."""
    schedule = valid_schedule("naive", seed)
    graph = schedule.graph
    used = [s.id for s in graph.storages if graph.accesses[s.id]]
    rules = [
        some_rule_for(random, schedule, random.choice(used), random.choice(["keep", "offload", "auto"]))
        for _ in range(random.randint(1, 4))
    ]
    policy = policy_from_document({"rules": rules})
    kept = {s for s, action in enumerate(match_rules(graph, policy)) if action == "keep"}
    found = violations(replace(schedule, policy=policy_to_document(policy)))
    assert {v.storage for v in found} == {s for s in kept if leaves(schedule, s)}


def test_an_op_reads_what_is_kept_and_not_a_copy_of_it() -> None:
    b = GraphBuilder("kept")
    x, a, y, out = b.storage("x", 8, "input"), b.storage("a", 8), b.storage("y", 8), b.storage("out", 8, "output")
    b.op("forward", [x], [a])
    b.op("other", [a], [y])
    b.op("backward", [a, y], [out], "backward")
    schedule = naive_schedule(recompute(b.graph(), [Recomputation((0,), 2, (2,))]))
    verify(schedule)
    found = violations(with_rule(schedule, {"name": "a", "action": "keep"}))
    assert [(v.rule, v.storage) for v in found] == [("keep", a)]
    assert "op 'backward' reads a copy of 'a', although rule 1 of the policy keeps it" in str(found[0])
    assert [v.rule for v in violations(schedule, fixed={a: "small"})] == ["keep"]


@pytest.mark.parametrize("source", SOURCES)
def test_no_valid_schedule_is_refused(source: str) -> None:
    """GIVEN schedules that lose no byte whichever op or transfer is slow THEN the verifier accepts them."""
    for seed in range(SEEDS):
        schedule = valid_schedule(source, seed)
        verify(schedule)
        if len(schedule.transfers) < 40:
            assert not breaks(schedule)


def test_every_rule_and_every_invariant_has_a_fault() -> None:
    assert {f.rule for f in FAULTS} | {"recompute"} == set(get_args(Rule))  # recompute: tests of recomputation
    assert {f.invariant for f in FAULTS} == set(range(10))
    in_event_form = {f.invariant for f in FAULTS if f.form == "events"}
    assert in_event_form == {2, 3, 4, 6, 9}, "what edges must guarantee; the others do not depend on durations"


# --- the verifier shares no code with what makes schedules -----------------------------------------------------------


def imports(path: Path) -> set[str]:
    """Modules of the core that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "absolute imports only, so that this test sees them"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == "hyperoffload_core" and file_of(name) is not None}


def file_of(module: str) -> Path | None:
    path = CORE.joinpath(*module.split(".")[1:])
    return next((p for p in (path / "__init__.py", path.with_suffix(".py")) if p.is_file()), None)


def test_the_verifier_shares_no_code_with_what_makes_schedules() -> None:
    """Nor does anything that it imports."""
    reached = {f"hyperoffload_core.verifier.{p.stem}" for p in (CORE / "verifier").glob("*.py") if p.stem != "__init__"}
    waiting = [*reached, "hyperoffload_core.verifier"]
    while waiting:
        path = file_of(waiting.pop())
        assert path is not None
        new = imports(path) - reached
        reached |= new
        waiting += new
    parts = {name.split(".")[1] for name in reached if "." in name}
    makers = {"passes", "strategies", "analysis", "simulator", "metrics", "compile", "session", "runtime", "explain"}
    assert not parts & makers
    values = {"errors", "files", "hardware", "ir", "schedule", "sizes"}
    assert parts <= {"verifier"} | values, (
        "a new module the verifier depends on: is it a value, or does it make schedules?"
    )
    calls = {
        node.func.attr
        for path in (CORE / "verifier").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert not calls & {"link_transfers"}, "the order of transfers is worked out again"


def test_what_a_store_reads_is_not_written_meanwhile() -> None:
    """GIVEN a store beside other ops, of a storage that stays and is written again THEN that op waits for the store."""
    b = GraphBuilder("checkpoint")
    kept, other, out = b.storage("kept", 8), b.storage("other", 8), b.storage("out", 8, "output")
    b.op("make", [], [kept])
    b.op("long", [], [other])
    b.op("update", [kept], [kept])
    b.op("use", [kept, other], [out])
    resident = naive_schedule(b.graph(), durations_ns=[10, 100, 10, 10])
    store = Transfer(0, "store", kept, 8, 10, 21, after_ops=(0,))
    times = tuple(replace(t, waits=(0,)) if t.op == 2 else t for t in resident.op_times)
    stored = replace(
        resident, transfers=(store,), op_times=times, metrics=replace(resident.metrics, bytes_out=8, exposed_ns=0)
    )
    verify(stored)
    found = violations(replace(stored, op_times=resident.op_times))
    assert [(v.rule, v.form, v.op, v.storage) for v in found] == [("store", "events", 2, kept)]
