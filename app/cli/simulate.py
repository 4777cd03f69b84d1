"""`hyperoffload simulate`"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from app.cli.display import console, print_json, print_table, size, time
from app.cli.options import DEFAULT_DATABASE, Database, Json, LinkBandwidth
from hyperoffload_core.hardware import transfer_ns
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.simulator import simulate as simulate_step
from hyperoffload_core.sizes import UNLIMITED_BYTES_PER_S, format_rate, parse_rate


def simulate(
    schedule: Annotated[
        str, typer.Argument(metavar="SCHEDULE", help="A schedule file, or a recorded run (its number, or `latest`).")
    ],
    link_bandwidth: LinkBandwidth = None,
    database: Database = DEFAULT_DATABASE,
    json: Json = False,
) -> None:
    """Predict the timeline of a compiled schedule, also on a slower or faster link than it was made for.

    Order and events stay as the schedule says; only durations of transfers change. The difference to the planned step
    shows how much a wrong bandwidth would cost.
    """
    planned = _schedule(schedule, database)
    on = planned
    if link_bandwidth is not None:
        rate = parse_rate(link_bandwidth)
        hardware = planned.hardware.with_link_bandwidth(UNLIMITED_BYTES_PER_S if rate is None else rate)
        on = replace(planned, hardware=hardware)
    links = {"store": on.hardware.link_out, "prefetch": on.hardware.link_in}
    profile = simulate_step(on, transfer_ns=[transfer_ns(t.bytes, links[t.kind]) for t in on.transfers])
    numbers = {name: int(getattr(profile.steps, name)[0]) for name in profile.steps.__dataclass_fields__}
    if json:
        document = {"kind": "predicted", "conditions": profile.conditions, "planned_step_ns": planned.metrics.step_ns}
        print_json(document | {"link_bytes_per_s": on.hardware.link_in.bytes_per_s} | numbers)
        return
    change = numbers["step_ns"] / planned.metrics.step_ns - 1 if planned.metrics.step_ns else 0.0
    console.print(profile.conditions, markup=False)
    print_table(
        [("", "left"), ("", "right")],
        [
            ["link", format_rate(on.hardware.link_in.bytes_per_s)],
            ["step", f"{time(numbers['step_ns'])} ({change:+.1%} of the plan's {time(planned.metrics.step_ns)})"],
            ["compute", time(numbers["compute_ns"])],
            ["blocking", time(numbers["blocking_ns"])],
            ["exposed", time(numbers["exposed_ns"])],
            ["device memory", size(planned.metrics.reserved_bytes)],
            ["live peak", size(numbers["peak_bytes"])],
            ["moved out", size(numbers["bytes_out"])],
            ["moved in", size(numbers["bytes_in"])],
        ],
    )


def _schedule(text: str, database: Path) -> Schedule:
    """From a file, or that of a recorded run."""
    if text.endswith((".json", ".json.gz")):
        from hyperoffload_core.given import read_verified

        return read_verified(Path(text))
    from db.database import open_database
    from db.documents import load_schedule
    from db.queries import find_run

    opened = open_database(database, create=False)
    try:
        return load_schedule(opened, find_run(opened, text).schedule_hash)
    finally:
        opened.close()
