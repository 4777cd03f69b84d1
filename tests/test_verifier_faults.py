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
from hyperoffload_core.schedule import Transfer
from hyperoffload_core.verifier import Rule, verify, violations
from tests.faults import FAULTS, Fault
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
