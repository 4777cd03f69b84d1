"""The compiler pass inside MindSpore: what its C++ library offers, from Python.

MindSpore runs every registered pass on each graph it compiles, in the process and for the target it was registered for,
and never forgets one. Without a plan this one does nothing.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hyperoffload_core.errors import UserError
from hyperoffload_core.mindspore_plugin.edits import Target
from hyperoffload_core.mindspore_plugin.toolchain import build_kernels, build_pass

PASS = "hyperoffload"
KERNELS_VARIABLE = "MS_OP_PLUGIN_PATH"
DUMP_VARIABLE = "HYPEROFFLOAD_DUMP"


@dataclass(frozen=True)
class Applied:
    """The last compile took the plan: so many nodes are new, so many inputs are others."""

    new_nodes: int
    changed_inputs: int


@dataclass(frozen=True)
class Refused:
    """The last compile was of a graph the plan does not fit, and changed nothing. One sentence says why."""

    reason: str


def prepare() -> Path:
    """Let MindSpore find our kernels; returns the path of their library.

    MindSpore reads ``MS_OP_PLUGIN_PATH`` once in a process, when it first selects a kernel: at the first op run in
    PyNative mode, or at the first graph compiled to be run (an export is none). Raises `UserError` where the variable
    names another library, for it can name only one.
    """
    kernels = build_kernels()
    named = os.environ.get(KERNELS_VARIABLE)
    if named and Path(named).resolve() != kernels.resolve():
        raise UserError(
            f"{KERNELS_VARIABLE} names {named}, and MindSpore loads one library of kernels only; unset it for this run"
        )
    os.environ[KERNELS_VARIABLE] = str(kernels)
    return kernels


@cache
def register(target: Target) -> None:
    """Let MindSpore run the pass on every graph it compiles for ``target``. Raises `UserError`."""
    library = build_pass()
    import mindspore.graph as graph

    kind = graph.CustomPassType.FULL_GRAPH
    if not graph.register_custom_pass(PASS, str(library), target, kind):
        raise UserError(f"MindSpore did not take the compiler pass {library}; its own log says why")


def set_plan(text: str) -> None:
    """The plan of every graph compiled from now on (`edits.plan_text`); "" for none. Forgets the last report."""
    library = _library()
    library.hyperoffload_pass_set_dump(os.fsencode(_dump_folder()))
    library.hyperoffload_pass_set_plan(text.encode())


def report() -> Applied | Refused | None:
    """What became of the plan in the last compile; None where nothing was compiled since it was set."""
    said = _library().hyperoffload_pass_report().decode(errors="replace")
    if not said:
        return None
    word, _, rest = said.partition("\t")
    if word == "refused":
        return Refused(rest)
    new_nodes, _, changed_inputs = rest.partition("\t")
    return Applied(int(new_nodes), int(changed_inputs))


def _dump_folder() -> str:
    """Where ``HYPEROFFLOAD_DUMP`` wants each graph before and after the edits; "" where it is not set."""
    named = os.environ.get(DUMP_VARIABLE, "")
    if not named:
        return ""
    folder = Path(named).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{DUMP_VARIABLE} names {named}, which is no folder to write to ({error.strerror})") from error
    return str(folder)


@cache
def _library() -> ctypes.CDLL:
    """The library MindSpore loads too: one copy in the process, so what is set here is what the pass sees."""
    import mindspore  # noqa: F401  (its libraries first)

    library = ctypes.CDLL(str(build_pass()))
    library.hyperoffload_pass_set_plan.argtypes = [ctypes.c_char_p]
    library.hyperoffload_pass_set_plan.restype = None
    library.hyperoffload_pass_set_dump.argtypes = [ctypes.c_char_p]
    library.hyperoffload_pass_set_dump.restype = None
    library.hyperoffload_pass_report.argtypes = []
    library.hyperoffload_pass_report.restype = ctypes.c_char_p
    return library
