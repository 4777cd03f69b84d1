"""The compiler pass inside MindSpore: what its C++ library offers, from Python.

MindSpore runs every registered pass on each graph it compiles, in the process and for the target it was registered for,
and never forgets one. Without a plan this one does nothing. What was found of MindSpore 2.10 on CPU:

- A compile runs the pass once, on the outermost graph, with everything inlined that can be: forward, gradients and
  optimizer, and what one `mindspore.jit` function calls of another. A cell in graph mode, a `jit` function in either
  mode and an export are each a compile; a shape not met before is another one; a cell in PyNative mode is none.
- Loops, branches and `lazy_inline` cells leave calls of functions in the graph, which no captured graph has, so a plan
  never fits one (and MindSpore does not run `lazy_inline` on CPU). `recompute` changes scopes only: ``recompute_...``.
- The graph comes before MindSpore's OrderEnforce: an export of it has more edges and more copies (`pass_match.h`).
- A new node costs 3 us of a step where it only orders (Depend), 15 us where it is a call of our library. The pass took
  0.8 s for 5,600 nodes and as many new ones, where MindSpore compiled for 20 s (busy machine, two cores).
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


@cache
def prepare() -> Path:
    """Build both libraries where they are not there yet; returns the kernels'. Raises `UserError` where that cannot be.
    In one process it is always the same library, whatever happens to the sources meanwhile.

    Nothing need be set before ``import mindspore``, and it does not matter what has run before: the pass makes each
    cache operator a call of MindSpore's own primitive ``Custom``, which names our library and its function.

    The other way MindSpore has, a library of operators named in ``MS_OP_PLUGIN_PATH``, is not used. MindSpore 2.10
    reads that variable once, when it first selects a kernel; it takes one library only, which may be a user's own; and
    while it is set, whatever the library holds, MindSpore on CPU passes views (`mint.transpose`, `chunk`, `split`,
    `select` and the like) to its own kernels as if they were contiguous, so plain models compute wrong results.
    """
    _pass_path()
    return build_kernels()


@cache
def _pass_path() -> Path:
    return build_pass()


@cache
def register(target: Target) -> None:
    """Let MindSpore run the pass on every graph it compiles for ``target``. Raises `UserError`."""
    _library()
    import mindspore.graph as graph

    if target == "cpu":
        use_kernels(prepare())
    kind = graph.CustomPassType.FULL_GRAPH
    if not graph.register_custom_pass(PASS, str(_pass_path()), target, kind):
        raise UserError("MindSpore did not take our compiler pass; its own log says why")


def use_kernels(library: Path) -> None:
    """From now on new nodes whose primitive is a function of ``library`` are calls of that function."""
    _library().hyperoffload_pass_set_kernels(os.fsencode(library))


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

    library = ctypes.CDLL(str(_pass_path()))
    library.hyperoffload_pass_set_plan.argtypes = [ctypes.c_char_p]
    library.hyperoffload_pass_set_plan.restype = None
    library.hyperoffload_pass_set_kernels.argtypes = [ctypes.c_char_p]
    library.hyperoffload_pass_set_kernels.restype = None
    library.hyperoffload_pass_set_dump.argtypes = [ctypes.c_char_p]
    library.hyperoffload_pass_set_dump.restype = None
    library.hyperoffload_pass_report.argtypes = []
    library.hyperoffload_pass_report.restype = ctypes.c_char_p
    return library
