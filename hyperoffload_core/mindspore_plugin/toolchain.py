"""The two C++ libraries of the plugin, built on this machine when they are first needed and found again.

The pass is compiled against MindSpore's own headers, so it belongs to one version of MindSpore and one place it is
installed at; the kernels know nothing of MindSpore. Both are kept in ``$XDG_CACHE_HOME/hyperoffload`` (usually
``~/.cache/hyperoffload``), each in a folder named by everything it was made from: compiler, flags, sources, MindSpore.
Such a folder is there whole or not at all, and of two processes that want it at once one builds and the other waits.

Nothing here imports mindspore: a missing compiler is said before the seconds that takes.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hyperoffload_core.errors import UserError

SOURCES = Path(__file__).parent / "src"
SUPPORTED_MINDSPORE = "2.10"
# What still works without the plugin; ends every sentence about what is missing.
ELSE = "the op-by-op executor still works"

# Warnings are errors where the project's tests build it (`make test`), not at a user with a compiler of tomorrow.
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wall", "-Wextra", "-Wpedantic")
# The layouts of MindSpore's classes depend on both: without the second every graph looks empty.
_MINDSPORE_DEFINES = ("-D_GLIBCXX_USE_CXX11_ABI=0", "-DENABLE_FAST_HASH_TABLE=1")
_MINDSPORE_INCLUDES = (
    "",
    "mindspore",
    "mindspore/core/include",
    "mindspore/core",
    "mindspore/ccsrc",
    "mindspore/ccsrc/include",
    "mindspore/ops",
    "mindspore/ops/include",
    "mindspore/core/mindrt",
    "mindspore/core/mindrt/include",
    "third_party",
    "third_party/include",
    "third_party/robin_hood_hashing",
    "third_party/robin_hood_hashing/include",
    "third_party/pybind11",
)


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the words of its command, and the first line of what it says about itself."""

    command: tuple[str, ...]
    version: str


@dataclass(frozen=True)
class MindSpore:
    """The MindSpore that ``import mindspore`` would give, without importing it."""

    version: str
    folder: Path


@dataclass(frozen=True)
class _Library:
    name: str
    sources: tuple[Path, ...]
    headers: tuple[Path, ...]
    compile_flags: tuple[str, ...]
    link_flags: tuple[str, ...]


def build_pass() -> Path:
    """The library of the compiler pass, built if it is not there yet (about 12 s). Raises `UserError`."""
    mindspore = find_mindspore()
    includes = (("-isystem", str(mindspore.folder / "include" / folder)) for folder in _MINDSPORE_INCLUDES)
    libraries = str(mindspore.folder / "lib")
    library = _Library(
        name="pass",
        sources=tuple(sorted(SOURCES.glob("pass*.cc"))),
        headers=tuple(sorted(SOURCES.glob("pass*.h"))),
        compile_flags=(*_MINDSPORE_DEFINES, *(word for pair in includes for word in pair)),
        link_flags=(f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lmindspore_core"),
    )
    return _built(library, mindspore)


def build_kernels() -> Path:
    """The library of the cache operators' kernels, built if it is not there yet. Raises `UserError`."""
    library = _Library(
        name="kernels",
        sources=tuple(p for p in sorted(SOURCES.glob("*.cc")) if not p.name.startswith(("pass", "test_"))),
        headers=tuple(p for p in sorted(SOURCES.glob("*.h")) if not p.name.startswith("pass")),
        compile_flags=(),
        link_flags=(),
    )
    return _built(library, find_mindspore())


def find_compiler() -> Compiler:
    """The C++ compiler that ``CXX`` names, or ``g++``, or ``clang++``. Raises `UserError` where none runs."""
    named = shlex.split(os.environ.get("CXX", ""))
    for command in [named] if named else [["g++"], ["clang++"]]:
        try:
            said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return Compiler(tuple(command), said.stdout.partition("\n")[0])
    missing = f"CXX names {' '.join(named)}, which does not run" if named else "there is no C++ compiler here"
    raise UserError(f"{missing}; the schedule inside MindSpore needs g++ or clang++ to build its pass; {ELSE}")


def find_mindspore() -> MindSpore:
    """The installed MindSpore. Raises `UserError` where it is missing or is of another version than 2.10."""
    found = importlib.util.find_spec("mindspore")
    if found is None or not found.submodule_search_locations:
        raise UserError("MindSpore is not installed here")
    folder = Path(found.submodule_search_locations[0])
    version = _version_of(folder)
    if version.split(".")[:2] != SUPPORTED_MINDSPORE.split("."):
        raise UserError(
            f"MindSpore {version} is installed, and the schedule inside MindSpore is made for the compiler "
            f"of {SUPPORTED_MINDSPORE}; {ELSE}"
        )
    return MindSpore(version, folder)


def _version_of(folder: Path) -> str:
    match = re.search(r"__version__\s*=\s*['\"]([^'\"]+)", (folder / "version.py").read_text())
    return match[1] if match else "of no version"


def cache_folder() -> Path:
    """Where built libraries are kept. Raises `UserError` where nothing can be written there."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "hyperoffload" / "plugin"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder


def _unwritable(folder: Path, error: OSError) -> UserError:
    return UserError(f"{folder} cannot be written ({error.strerror}); name another folder in XDG_CACHE_HOME")


def _built(library: _Library, mindspore: MindSpore) -> Path:
    compiler = find_compiler()
    folder = cache_folder() / f"{library.name}-{_key(library, mindspore, compiler)}"
    path = folder / f"libhyperoffload_{library.name}.so"
    if path.exists():
        return path
    try:
        with _only_one(folder.with_suffix(".lock")):
            if not path.exists():
                _build(library, compiler, path)
    except OSError as error:
        raise _unwritable(folder.parent, error) from error
    return path


def _key(library: _Library, mindspore: MindSpore, compiler: Compiler) -> str:
    digest = hashlib.sha256()
    facts = [mindspore.version, *compiler.command, compiler.version, *_FLAGS, *library.compile_flags]
    for text in [*facts, *library.link_flags]:
        digest.update(text.encode() + b"\0")
    for path in (*library.sources, *library.headers):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@contextmanager
def _only_one(lock: Path) -> Iterator[None]:
    """Held by one process at a time; the system lets go of it when the process ends, however it ends."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(library: _Library, compiler: Compiler, path: Path) -> None:
    half_done = path.parent.with_suffix(".building")
    shutil.rmtree(half_done, ignore_errors=True)  # of a process that was killed: its lock is ours now
    half_done.mkdir()
    flags = (*_FLAGS, *library.compile_flags)
    objects = [half_done / f"{source.stem}.o" for source in library.sources]
    commands = [
        (*compiler.command, *flags, "-c", str(source), "-o", str(object_file))
        for source, object_file in zip(library.sources, objects, strict=True)
    ]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        runs = list(pool.map(_run, commands))
    if all(run.returncode == 0 for run in runs):
        linked = half_done / path.name
        runs.append(
            _run((*compiler.command, *_FLAGS, "-shared", *map(str, objects), "-o", str(linked), *library.link_flags))
        )
    failed = [run for run in runs if run.returncode != 0]
    if failed:
        log = path.parent.with_suffix(".log")
        log.write_text("".join(f"$ {shlex.join(run.args)}\n{run.stderr}{run.stdout}\n" for run in failed))
        shutil.rmtree(half_done)
        raise UserError(
            f"{compiler.version} cannot build the plugin's {library.name}: {_first_error(failed[0])} "
            f"(all it said is in {log}); {ELSE}"
        )
    for object_file in objects:
        object_file.unlink()
    half_done.rename(path.parent)


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def _first_error(run: subprocess.CompletedProcess[str]) -> str:
    """The first line that says what is wrong, of a compiler or of a linker."""
    lines = [line.strip() for line in run.stderr.splitlines() if line.strip()]
    telling = [line for line in lines if "error:" in line and not line.startswith("collect2:")]
    telling += [line for line in lines if "multiple definition" in line or "undefined reference" in line]
    telling += lines[-1:]
    return telling[0].replace(f"{SOURCES}{os.sep}", "") if telling else f"it ended with code {run.returncode}"
