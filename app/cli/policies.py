"""`hyperoffload policies`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.cli.display import console, print_json, print_table
from app.cli.options import DEFAULT_DATABASE, Database, Force, Json, OptionError, writable

policies = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Saved policies: every compiled or saved text is a version of its name.",
)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The policy's name.")]


@policies.command("list")
def list_command(
    name: Annotated[str | None, typer.Argument(help="Only the versions of this policy.")] = None,
    database: Database = DEFAULT_DATABASE,
    json: Json = False,
) -> None:
    """List saved policies with their latest version, or the versions of one, newest first."""
    from db.database import open_database
    from db.policies import get_policy, list_policies, list_versions

    opened = open_database(database, create=False)
    try:
        if name is not None:
            get_policy(opened, name)
        versions = list_policies(opened) if name is None else list_versions(opened, name)
    finally:
        opened.close()
    if json:
        print_json([{"name": v.name, "version": v.number, "note": v.note, "policy": v.json} for v in versions])
        return
    if not versions:
        console.print(f"{opened.path} holds no policy yet", markup=False)
        return
    print_table(
        [("policy", "left"), ("version", "right"), ("saved (UTC)", "left"), ("strategy", "left"), ("limit", "right"),
         ("rules", "right"), ("note", "left")],
        [
            [v.name, str(v.number), v.created.strftime("%Y-%m-%d %H:%M"), str(v.json.get("strategy", "hyperoffload")),
             str(v.json.get("memory_limit", "device")), str(len(v.json.get("rules", ()))), v.note]
            for v in versions
        ],
    )  # fmt: skip


@policies.command()
def show(
    name: Name,
    version: Annotated[int | None, typer.Option("--version", min=1, help="Not the latest version.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write it as a `.toml` file for `--policy`.")
    ] = None,
    force: Force = False,
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Print a version as TOML."""
    from db.database import open_database
    from db.policies import get_policy

    if output is not None:
        if output.suffix != ".toml":
            raise OptionError(f"{output}: a policy is written as .toml")
        writable(output, force)
    opened = open_database(database, create=False)
    try:
        found = get_policy(opened, name, version)
    finally:
        opened.close()
    if output is not None:
        output.write_text(found.toml, encoding="utf-8")
        console.print(f"{found.name} version {found.number} written to {output}", markup=False)
        return
    console.print(found.toml, markup=False, end="", soft_wrap=True)


@policies.command()
def diff(
    name: Name,
    old: Annotated[int, typer.Argument(min=1, help="A version's number.")],
    new: Annotated[int | None, typer.Argument(min=1, help="Another; the latest if absent.")] = None,
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Print the lines in which two versions differ."""
    from db.database import open_database
    from db.policies import diff_versions, get_policy

    opened = open_database(database, create=False)
    try:
        versions = get_policy(opened, name, old), get_policy(opened, name, new)
    finally:
        opened.close()
    lines = diff_versions(*versions)
    if not lines:
        console.print(f"versions {versions[0].number} and {versions[1].number} of {name} say the same", markup=False)
    for line in lines:
        style = {"+": "green", "-": "red"}.get(line[:1])
        console.print(line, markup=False, style=style, soft_wrap=True)


@policies.command()
def restore(
    name: Name,
    version: Annotated[int, typer.Argument(min=1, help="The version to bring back.")],
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Save an older version again as the newest one; nothing is lost."""
    from app.policies import restore_version
    from db.database import open_database

    opened = open_database(database, create=False)
    try:
        saved = restore_version(opened, name, version)
    finally:
        opened.close()
    if saved.note != f"restored from version {version}":
        console.print(f"version {saved.number} of {saved.name}, the latest, already says the same", markup=False)
        return
    console.print(f"version {version} of {saved.name} is now version {saved.number}", markup=False)
