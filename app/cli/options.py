"""Options that several commands take, and what they mean together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hyperoffload_core.errors import UserError
from hyperoffload_core.policy import Policy, policy_from_document, policy_to_document, read_policy
from hyperoffload_core.sizes import OutOfRangeError, SizeError, parse_bytes, parse_percent

Database = Annotated[
    Path,
    typer.Option(
        "--database", "-d", metavar="FILE", envvar="HYPEROFFLOAD_DATABASE", help="The SQLite file runs are recorded in."
    ),
]
DEFAULT_DATABASE = Path("hyperoffload.db")
Limit = Annotated[
    str | None,
    typer.Option(
        "--limit",
        "-l",
        metavar="SIZE",
        help="Device memory the step may use: `48GiB`, or `60%` of the live peak without offload.",
    ),
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", "-p", metavar="FILE", help="A policy, as `.toml` or `.json`.")
]
Strategy = Annotated[
    str | None,
    typer.Option(
        "--strategy", "-s", metavar="NAME", help="The planning algorithm; `hyperoffload strategies` lists them."
    ),
]
StrategyOptions = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="An option of the strategy; may be given several times."),
]
Effort = Annotated[
    str | None,
    typer.Option(
        "--effort", metavar="fast|normal|best", help="How long `hyperoffload` searches; short for `--option effort=…`."
    ),
]
Hardware = Annotated[
    str | None,
    typer.Option(
        "--hardware", metavar="NAME", help="A description (`hyperoffload hardware` lists them) or a `.toml` file."
    ),
]
LinkBandwidth = Annotated[
    str | None,
    typer.Option("--link-bandwidth", metavar="RATE", help="Both directions of the link: `2GB/s`, or `unlimited`."),
]
HardwareNumbers = Annotated[
    list[str] | None,
    typer.Option(
        "--hardware-number",
        metavar="NAME=VALUE",
        help="Another number of the hardware, such as `link.in=40GB/s` (`hyperoffload hardware NAME` shows all;"
        " `compute.flops_per_s` in TFLOPS); may be given several times.",
    ),
]
Output = Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Where to write the result.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Overwrite the output file.")]
GraphMode = Annotated[bool, typer.Option("--graph-mode", help="Run inside MindSpore's graph mode instead of op by op.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")]


class OptionError(UserError):
    """Options that do not go together, or a file that may not be written."""


def policy_from_options(
    file: Path | None, limit: str | None, strategy: str | None, options: list[str] | None, default_limit: str | None
) -> Policy:
    """The policy of ``--policy``, with what the other options say put over it."""
    policy = read_policy(file) if file is not None else Policy(memory_limit=default_limit)
    document = policy_to_document(policy)
    if limit is not None:
        _check_limit(limit)
        document["memory_limit"] = limit
    if strategy is not None:
        if strategy != policy.strategy:
            document.pop("options", None)
        document["strategy"] = strategy
    if options:
        document["options"] = document.get("options", {}) | dict(_option(text) for text in options)
    if file is None:
        document["name"] = document["strategy"]
    asked = policy_from_document(document, "policy")
    # Before the long work begins; numpy comes with it, so only once there is a policy to check.
    from hyperoffload_core.strategies import find_strategy, resolve_options

    resolve_options(find_strategy(asked.strategy), asked.options)
    return asked


def with_effort(options: list[str] | None, effort: str | None) -> list[str]:
    """``--option`` as given, and what ``--effort`` is short for."""
    return [*(options or []), *([] if effort is None else [f"effort={effort}"])]


def _check_limit(limit: str) -> None:
    try:
        if limit.strip().lower() != "none" and parse_percent(limit) is None:
            parse_bytes(limit)
    except OutOfRangeError as error:
        raise OptionError(f"--limit {error}") from error
    except SizeError as error:
        raise OptionError(f"--limit {limit!r} is neither a size nor a share; write 48GiB or 60%") from error


def _option(text: str) -> tuple[str, bool | int | float | str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise OptionError(f"--option {text!r} is not KEY=VALUE, such as --option reorder=false")
    if value in ("true", "false"):
        return key, value == "true"
    for number in (int, float):
        try:
            return key, number(value)
        except ValueError:
            continue
    return key, value


def hardware_overrides(link_bandwidth: str | None, numbers: list[str] | None) -> dict[str, Any]:
    """Overrides of `load_hardware` for ``--link-bandwidth`` and, over it, ``--hardware-number``."""
    from app.dashboard.views.hardware import number_given

    overrides: dict[str, Any] = {}
    if link_bandwidth is not None:
        overrides = {"link.out": link_bandwidth, "link.in": link_bandwidth}
    for given in numbers or ():
        key, equals, text = (part.strip() for part in given.partition("="))
        if not equals or not key or not text:
            raise OptionError(
                f"--hardware-number {given!r} is not NAME=VALUE, such as --hardware-number link.in=40GB/s"
            )
        overrides[key] = number_given(key, text)
    return overrides


def writable(path: Path, force: bool) -> Path:
    """The path, when it may be written. Raises `OptionError` for an existing file without ``--force``, or no folder."""
    if path.is_dir():
        raise OptionError(f"{path} is a folder; name a file")
    if path.exists() and not force:
        raise OptionError(f"{path} exists; add --force to overwrite it, or name another file")
    if not path.absolute().parent.is_dir():
        raise OptionError(f"{path}: the folder {path.absolute().parent} does not exist")
    return path
