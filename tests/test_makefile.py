"""The Makefile: every target it offers does something, and is offered by one rule."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OFFERED = re.findall(r"make (\w+) ", (ROOT / "Makefile").read_text())
DOES = {
    "demo": "hyperoffload demo",
    "serve": "hyperoffload serve",
    "install": "pip install",
    "bench": "python -m bench",
    "test": "python -m pytest",
    "lint": "bin/mypy",
}


def test_help_offers_what_there_is() -> None:
    assert sorted(OFFERED) == sorted(DOES)


@pytest.mark.parametrize("target", DOES)
def test_a_target_runs_its_command(target: str) -> None:
    # -B: also what is made already; -n: only say what would run
    run = subprocess.run(["make", "-n", "-B", target], cwd=ROOT, capture_output=True, text=True, check=True)
    assert DOES[target] in run.stdout
    assert "warning" not in run.stderr
