"""`hyperoffload serve`"""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Annotated

import typer

from app.cli.display import console
from app.cli.options import DEFAULT_DATABASE, Database, OptionError


def serve(
    database: Database = DEFAULT_DATABASE,
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this machine's reach it elsewhere.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 8050,
) -> None:
    """Serve the dashboard over a database until Ctrl-C.

    It shows recorded runs, their memory curves and timelines, edits policies, compiles and runs again, compares and
    exports. Nothing leaves this machine, and no page needs the network.
    """
    check_address(host, port)
    serve_database(database, host, port)


def check_address(host: str, port: int) -> None:
    """Raise `OptionError` when nothing can listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise OptionError(f"port {port} of {host} is in use; name another with --port") from error
            raise OptionError(f"cannot listen on {host} port {port} ({error.strerror or error})") from error


def serve_database(database: Path, host: str, port: int) -> None:
    """Print the address and serve until interrupted."""
    from app.dashboard.factory import serve as serve_dashboard
    from db.database import open_database

    new = not database.expanduser().exists()
    opened = open_database(database)  # an address is announced only for what can be served
    opened.close()
    if new:
        console.print(f"{opened.path} is new: nothing is recorded in it yet", markup=False)
    if opened.read_only:
        console.print(f"{opened.path} cannot be written here: it can be looked at, nothing can be saved", markup=False)
    shown = f"[{host}]" if ":" in host else host
    console.print(f"dashboard at http://{shown}:{port}/ (Ctrl-C stops it)", markup=False)
    try:
        serve_dashboard(database, host=host, port=port)
    except KeyboardInterrupt:
        return
