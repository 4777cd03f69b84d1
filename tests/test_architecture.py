"""docs/architecture.md names every module of the core and of the app, and none that is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "architecture.md").read_text()
TREE = TEXT.split("```")[1]


def modules(folder: str) -> list[str]:
    names = (ROOT / folder).iterdir()
    return sorted(
        f"{path.name}/" if path.is_dir() else path.name
        for path in names
        if path.name not in ("__init__.py", "__pycache__") and (path.suffix == ".py" or (path / "__init__.py").exists())
    )


@pytest.mark.parametrize("module", [*modules("hyperoffload_core"), *modules("app")])
def test_every_module_of_the_core_and_of_the_app_is_listed(module: str) -> None:
    assert module in TREE or f"(app/{module.rstrip('/')})" in TREE


def test_everything_that_is_listed_exists() -> None:
    there = {path.name for folder in ("app", "hyperoffload_core") for path in (ROOT / folder).rglob("*.py")}
    listed = set(re.findall(r"[a-z_]+\.py\b", TREE)) - {"hyperoffload.py"}
    assert listed
    assert sorted(listed - there) == []
