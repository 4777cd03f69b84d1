"""`hyperoffload demo`"""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.options import DEFAULT_DATABASE, Database, GraphMode, Json
from app.cli.run import run_policies
from app.cli.serve import check_address, serve_database
from app.demo import DEMO_LIMIT, DEMO_LINK, DEMO_MODEL, DEMO_STEPS, demo_policies


def demo(
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Stop after the table.")] = False,
    json: Json = False,
    steps: Annotated[int, typer.Option(min=1, max=1000, help="Measured steps of each schedule.")] = DEMO_STEPS,
    limit: Annotated[
        str, typer.Option("--limit", "-l", metavar="SIZE", help="A size, or a share of the no-offload live peak.")
    ] = DEMO_LIMIT,
    link_bandwidth: Annotated[
        str, typer.Option("--link-bandwidth", metavar="RATE", help="Pace copies to this rate, or `unlimited`.")
    ] = DEMO_LINK,
    graph_mode: GraphMode = False,
    database: Database = DEFAULT_DATABASE,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where the dashboard listens.")] = 8050,
) -> None:
    """A real training step of a small LLaMA in less memory, measured, and the dashboard on the result.

    Captures a LLaMA-style decoder with AdamW through MindSpore's front end, runs it without offload, compiles it under
    the limit with `hyperoffload` and with `reactive` (least recently used, copies on demand), executes all three
    interleaved, prints the table, records everything, and serves the dashboard until Ctrl-C. `--json` prints the
    table as JSON and implies `--no-serve`.
    """
    serving = not (no_serve or json)
    if serving:
        check_address("127.0.0.1", port)
    policies = demo_policies(limit)
    run_policies(DEMO_MODEL, policies, steps, link_bandwidth, database, "", json, saved=True, graph_mode=graph_mode)
    if serving:
        serve_database(database, "127.0.0.1", port)
