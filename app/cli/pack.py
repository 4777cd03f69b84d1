"""`hyperoffload pack`"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Annotated, Any

import typer

from app.cli.display import console, print_json, print_table, progress_shown
from app.cli.options import Force, Json, OptionError, writable
from hyperoffload_core.errors import UserError
from hyperoffload_core.files import write_whole
from hyperoffload_core.sizes import format_bytes, parse_bytes

LONGEST_S = 86_400


class CapacityError(UserError):
    """A capacity that no packing meets, or that none was found for in the time allowed."""


def pack(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="Buffers in MiniMalloc's CSV.")],
    capacity: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Stop at the first packing within it: `1048576`, `1MiB`.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long to search; Ctrl-C ends it earlier.")] = 60.0,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE.csv", help="The same CSV with the offsets in a column.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Give every buffer an address so that buffers alive at once share no byte, as low as possible.

    FILE.csv has the columns `id`, `lower`, `upper` (lifetimes are half-open) and `size`, and perhaps `alignment`,
    `gaps`, `offset` (a buffer that must lie there) and `hint`. Without `--capacity` the height is made as small as the
    time allows; it is never below the liveness bound, the most bytes alive at once.

    Example: `hyperoffload pack C.1048576.csv --capacity 1MiB --output packed.csv`
    """
    from hyperoffload_core.packing.minimalloc import buffers_with_offsets, read_buffers
    from hyperoffload_core.packing.pack import pack as find_packing
    from hyperoffload_core.packing.problem import make_problem

    if not 0 < seconds <= LONGEST_S:
        raise OptionError(f"--seconds {seconds:g} is no time to search; give a number above 0, up to {LONGEST_S:,}")
    capacity_bytes = None if capacity is None else parse_bytes(capacity)
    if output is not None:
        writable(output, force)
    buffers = read_buffers(file)
    liveness = make_problem(buffers.blocks).liveness_bound
    if capacity_bytes is not None and capacity_bytes < liveness and not buffers.kept_windows:
        raise CapacityError(
            f"{file}: the capacity {capacity_bytes:,} is impossible; {liveness:,} bytes are needed at once"
        )
    began, message = monotonic(), "packing"
    with progress_shown() as shown, interruptible() as interrupted:

        def stop() -> bool:
            shown(min(int(monotonic() - began), int(seconds)), int(seconds), message)
            return interrupted() or monotonic() - began > seconds

        def progress(height: int, bound: int) -> None:
            nonlocal message
            message = f"height {height:,}, nothing is below {bound:,}"

        packing = find_packing(buffers.blocks, capacity_bytes, stop, progress)
        ended_early = interrupted()
    elapsed = monotonic() - began
    reached = capacity_bytes is None or packing.height <= capacity_bytes
    if output is not None:
        write_whole(output, buffers_with_offsets(buffers, packing.offsets).encode())
    document: dict[str, Any] = {
        "file": str(file),
        "buffers": len(buffers.ids),
        "height": packing.height,
        "capacity": capacity_bytes,
        "within_capacity": reached,
        "liveness_bound": liveness,
        "proved_bound": packing.bound_bytes,
        "optimal": packing.height == packing.bound_bytes,
        "fragmentation_bytes": packing.height - liveness,
        "fragmentation": round(packing.height / liveness - 1, 6) if liveness else 0.0,
        "elapsed_s": round(elapsed, 3),
        "output": str(output) if output else None,
        "offsets": dict(zip(buffers.ids, packing.offsets, strict=True)),
    }
    if json:
        print_json(document)
    else:
        if output is None:
            rows = zip(buffers.ids, buffers.lifetimes, buffers.blocks, packing.offsets, strict=True)
            print_table(
                [("id", "left"), ("lower", "right"), ("upper", "right"), ("size", "right"), ("offset", "right")],
                [[i, str(low), str(up), str(b.bytes), str(o)] for i, (low, up), b, o in rows],
            )
        _print(document, buffers.kept_windows)
    if ended_early and not (reached and capacity_bytes is not None):
        raise typer.Exit(130)
    if not reached and capacity_bytes is not None:
        if packing.bound_bytes > capacity_bytes and not buffers.kept_windows:
            raise CapacityError(
                f"{file}: the capacity {capacity_bytes:,} is impossible; the search has proved that "
                f"{packing.bound_bytes:,} bytes are needed"
            )
        raise CapacityError(
            f"{file}: the capacity {capacity_bytes:,} was not reached in {seconds:g} s; the lowest packing found needs "
            f"{packing.height:,} bytes, and nothing is below {packing.bound_bytes:,}"
        )


def _print(document: dict[str, Any], kept_windows: int) -> None:
    optimal = "the lowest there is" if document["optimal"] else f"nothing is below {document['proved_bound']:,}"
    rows = [
        ["buffers", f"{document['buffers']:,}"],
        ["height", f"{document['height']:,} ({format_bytes(document['height'])}; {optimal})"],
        ["liveness bound", f"{document['liveness_bound']:,}"],
        ["fragmentation", f"{document['fragmentation_bytes']:,} ({document['fragmentation']:.2%})"],
        ["took", f"{document['elapsed_s']:.2f} s"],
    ]
    if document["capacity"] is not None:
        rows.insert(2, ["capacity", f"{document['capacity']:,}"])
    print_table([("", "left"), ("", "right")], rows)
    if kept_windows:
        console.print(f"note: {kept_windows} gaps have a window; their buffers keep all their bytes meanwhile")
    if document["output"]:
        console.print(f"written to {document['output']}", markup=False)


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C is remembered instead of raised, so that what was found so far can be given; a second one is raised."""
    asked = False

    def remember(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
