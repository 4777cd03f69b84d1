"""The command ``hyperoffload`` (also ``python -m hyperoffload``), and ``import hyperoffload as ho`` for programs.

`app`, `db` and `profiles` are common names. Whatever a user's folder, the working directory or PYTHONPATH holds, in
this process these names mean the packages beside this file. Models are captured and run in other processes
(`hyperoffload_core.worker`), where the same names are the user's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent
OURS = ("app", "db", "hyperoffload_core", "profiles")


def __getattr__(name: str) -> Any:
    """What `hyperoffload_core.interface` offers, imported when it is first used."""
    if not name.startswith("_"):
        interface = import_module("hyperoffload_core.interface")
        if name in interface.__all__:
            return getattr(interface, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *import_module("hyperoffload_core.interface").__all__]


class _OurPackages:
    """Finds our top-level packages beside this file before any path is searched."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(ROOT)], target) if path is None and name in OURS else None


def main() -> None:
    """Run the command line."""
    sys.meta_path.insert(0, _OurPackages)
    from app.cli.main import run

    sys.exit(run())


if __name__ == "__main__":
    main()
