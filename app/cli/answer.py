"""`hyperoffload answer`: what the process of a dashboard's planner runs. Not for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def answer(
    descriptor: Annotated[int, typer.Argument()],
    database: Annotated[Path, typer.Option()],
    niceness: Annotated[int, typer.Option()] = 0,
) -> None:
    """Answer asks that come through an open socket until it closes."""
    import os
    from multiprocessing.connection import Connection

    from app.answering import answer_asks

    os.nice(niceness)
    answer_asks(Connection(descriptor), database)
