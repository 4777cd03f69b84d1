"""The plugin's libraries: built once, found again, and a sentence where they cannot be."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hyperoffload_core.errors import UserError
from hyperoffload_core.mindspore_plugin import toolchain
from hyperoffload_core.mindspore_plugin.toolchain import build_kernels, build_pass, find_compiler, find_mindspore

ROOT = Path(__file__).parent.parent
SMALL = 'extern "C" int answer() { return 42; }\n'


@pytest.fixture
def compiler() -> None:
    try:
        find_compiler()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: None) -> Path:  # noqa: ARG001
    """A folder of sources that are quick to compile, and a cache with nothing in it."""
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "small.cc").write_text(SMALL)
    (folder / "small.h").write_text("")
    (folder / "test_more.cc").write_text("this is no C++")
    monkeypatch.setattr(toolchain, "SOURCES", folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def kept(tmp_path: Path) -> list[str]:
    return sorted(p.name for p in (tmp_path / "cache" / "hyperoffload" / "plugin").iterdir())


def test_a_library_is_built_once(sources: Path, tmp_path: Path) -> None:
    library = build_kernels()
    assert library.name == "libhyperoffload_kernels.so"
    built_ns = library.stat().st_mtime_ns
    assert build_kernels() == library
    assert library.stat().st_mtime_ns == built_ns
    assert [p.name for p in library.parent.iterdir()] == [library.name], "objects are gone"
    assert kept(tmp_path) == [library.parent.name, f"{library.parent.name}.lock"]
    assert sources.exists()


def test_other_sources_or_flags_are_another_library(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_kernels()
    (sources / "small.h").write_text("// other")
    second = build_kernels()
    monkeypatch.setattr(toolchain, "_FLAGS", (*toolchain._FLAGS, "-DOTHER"))
    third = build_kernels()
    assert len({first, second, third}) == 3
    (sources / "pass.cc").write_text("// the pass's, not the kernels'")
    assert build_kernels() == third


def test_another_compiler_is_another_library(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = build_kernels()
    other = tmp_path / "other-g++"
    other.write_text('#!/bin/sh\ncase "$*" in *--version*) echo other 1.0;; *) exec g++ "$@";; esac\n')
    other.chmod(0o755)
    monkeypatch.setenv("CXX", f"{other} -DWORDS")
    assert find_compiler() == toolchain.Compiler((str(other), "-DWORDS"), "other 1.0")
    assert build_kernels() != first
    assert sources.exists()


def test_what_the_compiler_says_is_one_sentence_and_a_log(sources: Path, tmp_path: Path) -> None:
    (sources / "small.cc").write_text("int answer() { int unused; return nothing; }\n")
    with pytest.raises(
        UserError, match=r"cannot build the plugin's kernels: small\.cc:1:\d+: error: .*nothing"
    ) as error:
        build_kernels()
    assert "\n" not in str(error.value)
    assert str(error.value).endswith("the op-by-op executor still works")
    log = next(Path(word.strip("(;)")) for word in str(error.value).split() if word.strip("(;)").endswith(".log"))
    assert "unused" in log.read_text()
    assert not [name for name in kept(tmp_path) if name.endswith(".building")]
    (sources / "small.cc").write_text(SMALL)
    assert build_kernels().exists()


def test_a_warning_stops_nobody_but_who_asks_for_it(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (sources / "small.cc").write_text("int answer() { int unused; return 42; }\n")
    monkeypatch.delenv("CXX", raising=False)
    assert build_kernels().exists()
    monkeypatch.setenv("CXX", f"{find_compiler().command[0]} -Werror")
    with pytest.raises(UserError, match="unused"):
        build_kernels()


def test_what_cannot_be_linked_is_said(sources: Path) -> None:
    (sources / "small.cc").write_text('extern "C" int answer() { return 42; }\nint twice() { return 1; }\n')
    (sources / "more.cc").write_text("int twice() { return 2; }\n")
    with pytest.raises(UserError, match=r"multiple definition|duplicate symbol"):
        build_kernels()


def test_no_compiler_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"^there is no C\+\+ compiler here; .*g\+\+ or clang\+\+.*op-by-op executor"):
        build_pass()


def test_a_named_compiler_that_does_not_run_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -O3")
    with pytest.raises(UserError, match=r"^CXX names no-such-compiler -O3, which does not run"):
        build_kernels()


def test_another_mindspore_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_version_of", lambda _folder: "2.11.0")
    with pytest.raises(
        UserError, match=r"^MindSpore 2\.11\.0 is installed, .*compiler of 2\.10; the op-by-op executor"
    ):
        build_pass()


def test_mindspore_is_found_without_importing_it() -> None:
    code = (
        "import sys\nfrom hyperoffload_core.mindspore_plugin.toolchain import find_mindspore\n"
        "found = find_mindspore()\nprint(found.version, found.folder)\nassert 'mindspore' not in sys.modules"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    version, folder = said.split()
    assert version.startswith("2.10")
    assert (Path(folder) / "include" / "mindspore" / "include" / "custom_pass_api.h").exists()
    assert find_mindspore().folder == Path(folder)


def test_a_cache_that_cannot_be_written_is_said(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"file/hyperoffload/plugin cannot be written .* XDG_CACHE_HOME"):
        build_kernels()
    assert sources.exists()


def test_two_processes_at_once_build_one_library(sources: Path, tmp_path: Path) -> None:
    count = tmp_path / "count"
    slow = tmp_path / "slow-g++"
    slow.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec g++ --version\n'
        f'case "$*" in *-shared*) echo linked >> {count}; sleep 0.5;; esac\nexec g++ "$@"\n'
    )
    slow.chmod(0o755)
    code = (
        "import sys\nfrom pathlib import Path\nfrom hyperoffload_core.mindspore_plugin import toolchain\n"
        "toolchain.SOURCES = Path(sys.argv[1])\nprint(toolchain.build_kernels())"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(sources)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "CXX": str(slow)},
        )
        for _ in range(2)
    ]
    said = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert said[0] == said[1]
    assert Path(said[0].strip()).exists()
    assert count.read_text().split() == ["linked"]


def test_what_a_killed_process_left_half_done_is_in_nobodys_way(sources: Path) -> None:
    library = build_kernels()
    shutil.rmtree(library.parent)
    half_done = library.parent.with_suffix(".building")
    half_done.mkdir()
    (half_done / "small.o").write_text("half an object")
    assert build_kernels() == library
    assert not half_done.exists()
    assert sources.exists()


def test_the_sources_are_packaged() -> None:
    """An installed wheel builds the same libraries."""
    import tomllib

    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    package = ROOT / "hyperoffload_core" / "mindspore_plugin"
    packaged = {path for pattern in data["hyperoffload_core.mindspore_plugin"] for path in package.glob(pattern)}
    assert {p for p in (package / "src").iterdir() if p.suffix in (".cc", ".h")} == packaged
