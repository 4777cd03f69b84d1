"""The real command, as a person runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from app.cli.main import cli, run
from db.database import open_database
from db.processes import process_started
from db.queries import list_runs
from hyperoffload_core.schedule import read_schedule, to_document
from hyperoffload_core.verifier import violations
from tests.command import COMMAND, ROOT, free_port, hyperoffload
from tests.graphs import training
from tests.naive_schedule import naive_schedule

USERS_FOLDER = Path(__file__).parent / "users_folder"
COMMANDS = [c.name or c.callback.__name__ for c in cli.registered_commands if c.callback and not c.hidden]
COMMANDS += [group.name for group in cli.registered_groups if group.name]


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    expected = {
        "demo",
        "serve",
        "capture",
        "compile",
        "run",
        "simulate",
        "emit",
        "pack",
        "runs",
        "explain",
        "compare",
        "export",
    }
    assert set(COMMANDS) == expected | {"hardware", "strategies", "sql", "sweep", "policies", "jobs", "experiments"}
    assert all(name in text for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert f"Usage: hyperoffload {name}" in capsys.readouterr().out


def test_the_readme_names_every_command_and_only_files_that_are_there() -> None:
    readme = (ROOT / "README.md").read_text()
    assert all(f"`{name}`" in readme for name in COMMANDS)
    linked = re.findall(r"\]\(([^)#:]+)\)", readme)
    assert linked
    assert all((ROOT / path).is_file() for path in linked)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["hardware", "h101"], "no hardware is called 'h101'"),
        (["run", "tiny", "--limit", "5x"], "--limit '5x' is neither a size nor a share"),
        (["run", "tiny", "--limit", "99999999999999TiB"], "--limit '99999999999999TiB' is out of range; a size lies"),
        (["run", "tiny", "--limit", "5000%"], "--limit '5000%' is out of range; a share lies above 0%"),
        (["run", "tiny", "--link-bandwidth", "0B/s"], "'0B/s' is out of range; a rate lies between"),
        (["run", "tiny", "--link-bandwidth", "5GB"], "'5GB' is not a rate"),
        (["run", "tiny", "--policy", "none.toml"], "none.toml: the file cannot be read"),
        (["run", "tiny", "--option", "x"], "--option 'x' is not KEY=VALUE"),
        (["run", "tiny", "--option", "efort=fast"], "strategy 'hyperoffload' has no option 'efort'"),
        (["run", "tiny", "--effort", "quick"], "is 'quick'; choose one of fast, normal, best"),
        (["compile", "tiny", "-s", "reactive", "--effort", "fast"], "strategy 'reactive' has no option 'effort'"),
        (["run", "tiny", "--strategy", "hyperofload"], "did you mean hyperoffload?"),
        (["run", "latest"], "there is no database at"),
        (["run", "tiny", "--schedule", "none.json"], "none.json: not a schedule file"),
        (["run", "tiny", "--schedule", "notes.txt"], "notes.txt: not a schedule file"),
        (["compile", "none.json", "--limit", "50%"], "none.json: not a graph file (No such file or directory)"),
        (["compile", "tiny", "--output", "a.txt"], "a.txt: a schedule file ends in .json or .json.gz"),
        (["simulate", "none.json"], "none.json: not a schedule file (No such file or directory)"),
        (["runs"], "there is no database at"),
        (["runs", "--database", "notes.txt"], "notes.txt is not a database"),
        (["export", "1", "--output", "a.csv"], "a.csv: name a file that ends in"),
        (["compare", "1"], "a comparison needs two runs or more"),
    ],
)
def test_wrong_input_is_one_sentence_and_code_2(
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refuses(arguments, says, tmp_path, monkeypatch, capsys)


def test_what_is_no_database_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A free port: the dashboard of `make demo` may be open beside the tests.
    arguments = ["serve", "--database", "notes.txt", "--port", str(free_port())]
    refuses(arguments, "notes.txt is not a database", tmp_path, monkeypatch, capsys)


def refuses(
    arguments: list[str],
    says: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    Path("notes.txt").write_text("not a database " * 100)
    assert run(arguments) == 2
    said = capsys.readouterr().err.strip().removeprefix("hyperoffload: ")
    assert says in said
    assert "\n" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"transfers": []}, "breaks the rule 'structure'"),
        ({"residencies": []}, "breaks the rule 'residency'"),
        ({"order": "0"}, "'0' is no list of integers"),
        ({"memory_limit_bytes": "1GiB"}, "'1GiB' is no integer"),
    ],
)
def test_a_schedule_file_that_someone_changed_is_not_simulated(
    change: dict[str, Any],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    schedule = naive_schedule(training(3), gaps=[(s, 0) for s in range(12)], homes={0: "pool"})
    Path("s.json").write_text(json.dumps(to_document(schedule)))
    assert run(["simulate", "s.json"]) == 0
    Path("s.json").write_text(json.dumps(to_document(schedule) | change))
    assert run(["simulate", "s.json"]) == 2
    assert says in capsys.readouterr().err


def test_a_number_larger_than_any_run_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    open_database(tmp_path / "hyperoffload.db").close()
    assert run(["simulate", str(10**30)]) == 2
    assert f"there is no run {10**30}" in capsys.readouterr().err


def test_serve_says_when_the_port_is_taken(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = hyperoffload("serve", "--port", port, folder=tmp_path)
    assert done.returncode == 2
    assert f"port {port} of 127.0.0.1 is in use; name another with --port" in done.stderr
    assert not list(tmp_path.iterdir())


def test_serve_says_that_a_database_is_new_and_makes_no_folder_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """GIVEN a mistyped path THEN an empty dashboard is not served without a word."""
    monkeypatch.setattr("app.dashboard.factory.serve", lambda *_, **__: None)
    port = str(free_port())
    assert run(["serve", "--port", port, "--database", str(tmp_path / "runz.db")]) == 0
    assert "runz.dbisnew:nothingisrecordedinityet" in "".join(capsys.readouterr().out.split())  # wrapped anywhere
    assert run(["serve", "--port", port, "--database", str(tmp_path / "runz.db")]) == 0
    assert "is new" not in capsys.readouterr().out
    for command in (["serve"], ["compile", "tiny"], ["demo", "--no-serve"], ["runs"], ["sql", "select 1"]):
        assert run([*command, "--database", str(tmp_path / "nowhere" / "x.db")]) == 2
        assert re.search("there is no (folder|database)", capsys.readouterr().err.replace("\n", " "))
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.mindspore
def test_a_users_app_db_and_profiles_are_theirs_and_ours_are_ours(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    shutil.copytree(USERS_FOLDER, folder)
    done = hyperoffload(
        *("run", "model.py:build", "--limit", "70%", "--steps", "2", "--json"),
        folder=folder,
        module=True,
        PYTHONPATH=f"{folder}{os.pathsep}{ROOT}",
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [p["policy"] for p in document["policies"]] == ["no offload", "hyperoffload"]
    without, offloaded = document["policies"]
    assert offloaded["peak_measured_bytes"] == offloaded["peak_planned_bytes"] <= offloaded["memory_limit_bytes"]
    assert offloaded["peak_measured_bytes"] < without["peak_measured_bytes"]
    assert offloaded["bit_identical"] is without["bit_identical"] is True
    assert offloaded["losses"] == without["losses"]


@pytest.mark.mindspore
@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("broken", "raised RuntimeError: no data (line 28)"),
        ("build_it", "has no function 'build_it'; it has"),
        ("leaves", "raised SystemExit: 3 (line"),
    ],
)
def test_a_fault_in_the_users_file_is_one_sentence(function: str, says: str, tmp_path: Path) -> None:
    done = hyperoffload("run", f"{USERS_FOLDER / 'model.py'}:{function}", folder=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.mindspore
def test_a_graph_is_captured_compiled_simulated_exported_and_compared(tmp_path: Path) -> None:
    captured = hyperoffload("capture", "tiny", "--output", "graph.json.gz", "--json", folder=tmp_path)
    assert captured.returncode == 0, captured.stderr
    assert json.loads(captured.stdout)["bytes_by_class"]["optimizer_state"] > 0

    for limit, name in (("50%", "half.json.gz"), ("80%", "most.json.gz")):
        compiled = hyperoffload(
            *("compile", "graph.json.gz", "--hardware", "h200", "--limit", limit, "--output", name, "--json"),
            folder=tmp_path,
        )
        assert compiled.returncode == 0, compiled.stderr
        schedule = read_schedule(tmp_path / name)
        assert not list(violations(schedule))
        metrics = json.loads(compiled.stdout)["metrics"]
        assert metrics["reserved_bytes"] <= schedule.memory_limit_bytes
        assert metrics["lower_bound_ns"] <= metrics["step_ns"]

    as_planned = json.loads(hyperoffload("simulate", "half.json.gz", "--json", folder=tmp_path).stdout)
    assert as_planned["step_ns"] == as_planned["planned_step_ns"]
    run_it = ("run", "tiny", "--schedule", "half.json.gz", "--steps", "2", "--database", "measured.db", "--json")
    executed = hyperoffload(*run_it, folder=tmp_path)
    assert executed.returncode == 0, executed.stderr
    without, given = json.loads(executed.stdout)["policies"]
    assert (without["policy"], given["policy"]) == ("no offload", "half.json.gz")
    half = read_schedule(tmp_path / "half.json.gz")
    assert given["peak_measured_bytes"] == given["peak_planned_bytes"] == half.metrics.reserved_bytes
    assert (given["bytes_out"], given["bytes_in"]) == (half.metrics.bytes_out, half.metrics.bytes_in)
    assert given["bit_identical"] is True and given["losses"] == without["losses"]
    slower = ("simulate", "half.json.gz", "--link-bandwidth", "1GB/s", "--json")
    assert json.loads(hyperoffload(*slower, folder=tmp_path).stdout)["step_ns"] > as_planned["step_ns"]

    assert hyperoffload("compare", "1", "2", "--output", "report.html", folder=tmp_path).returncode == 0
    assert "<html" in (tmp_path / "report.html").read_text()[:200].lower()
    assert hyperoffload("export", "1", "--output", "trace.json", folder=tmp_path).returncode == 0
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert hyperoffload("export", "1", "--schedule", "--output", "again.json", folder=tmp_path).returncode == 0
    assert read_schedule(tmp_path / "again.json").hash == read_schedule(tmp_path / "half.json.gz").hash

    refused = hyperoffload("export", "1", "--output", "trace.json", folder=tmp_path)
    assert (refused.returncode, "add --force to overwrite it" in refused.stderr) == (2, True)
    assert hyperoffload("export", "1", "--output", "trace.json", "--force", folder=tmp_path).returncode == 0

    infeasible = hyperoffload("compile", "1", "--limit", "1KiB", folder=tmp_path)
    assert infeasible.returncode == 2
    assert "the smallest feasible limit is" in infeasible.stderr
    listed = json.loads(hyperoffload("runs", "--json", folder=tmp_path).stdout)
    assert [(r["kind"], r["status"], r["hardware"]) for r in listed] == [("predicted", "complete", "h200")] * 2


def _long_run(folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    """A run that has begun to record and would go on for minutes."""
    process = subprocess.Popen(
        [*COMMAND, "run", "tiny", "--steps", "1000", "--limit", "70%"],
        cwd=folder,
        env=dict(os.environ) | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    database = folder / "hyperoffload.db"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if database.exists():
            opened = open_database(database)
            recorded = [r.step_count for r in list_runs(opened)]
            opened.close()
            if len(recorded) == 2 and all(recorded):
                return process
        time.sleep(0.2)
    process.kill()
    raise AssertionError(f"the run recorded nothing: {process.communicate()[0].decode()}")


def _children(pid: int) -> list[int]:
    return [int(p) for t in Path(f"/proc/{pid}/task").iterdir() for p in (t / "children").read_text().split()]


@pytest.mark.mindspore
def test_a_killed_run_is_incomplete_keeps_its_steps_and_leaves_no_process(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = _long_run(tmp_path, TMPDIR=str(temporary))
    workers = _children(process.pid)
    process.kill()
    process.wait()
    listed = json.loads(hyperoffload("runs", "--json", folder=tmp_path).stdout)
    assert [r["status"] for r in listed] == ["incomplete"] * 2
    assert all(r["step_count"] > 0 for r in listed)
    deadline = time.monotonic() + 20
    while any(process_started(w) for w in workers) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert workers
    assert not any(process_started(w) for w in workers)
    assert not list(temporary.iterdir())


@pytest.mark.mindspore
def test_a_run_whose_worker_is_killed_says_so_and_is_failed(tmp_path: Path) -> None:
    process = _long_run(tmp_path)
    for worker in _children(process.pid):
        os.kill(worker, signal.SIGKILL)
    said = process.communicate(timeout=30)[0].decode()
    assert process.returncode == 2
    assert "was killed, probably because the machine has too little memory" in said
    listed = json.loads(hyperoffload("runs", "--json", folder=tmp_path).stdout)
    assert [r["status"] for r in listed] == ["failed"] * 2


@pytest.mark.mindspore
def test_ctrl_c_cancels_a_run(tmp_path: Path) -> None:
    process = _long_run(tmp_path)
    workers = _children(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=30)[0].decode()
    assert process.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said
    assert not any(process_started(w) for w in workers)
    listed = json.loads(hyperoffload("runs", "--json", folder=tmp_path).stdout)
    assert [r["status"] for r in listed] == ["cancelled"] * 2


def test_strategies_lists_what_an_option_may_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["strategies"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "--option effort=normal" in said and "(one of fast, normal, best)" in said
