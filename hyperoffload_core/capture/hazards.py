"""Orders of reading and writing that op-by-op execution would get wrong; each is refused in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hyperoffload_core.capture.errors import CaptureError
from hyperoffload_core.capture.raw import RawGraph, State


def refuse_writes_beside_copies(raw: RawGraph, copied_views: Mapping[int, int]) -> None:
    """A view executed as a copy (storage -> its base) is right only while neither is written as long as it is read."""
    made = {s: n for n, call in enumerate(raw.calls) for s in call.writes if s in copied_views and s not in call.reads}
    last_read = {s: n for n, call in enumerate(raw.calls) for s in call.reads if s in copied_views}
    for view, base in copied_views.items():
        for n in range(made[view] + 1, len(raw.calls)):
            call = raw.calls[n]
            through = view in call.writes
            if through or (base in call.writes and n < last_read.get(view, -1)):
                raise CaptureError(
                    f"{call.domain} ({call.primitive}) writes in place {'through' if through else 'under'} the strided "
                    f"view of {raw.calls[made[view]].domain}; only in-place writes to whole tensors can be captured"
                )


def refuse_stale_reads(raw: RawGraph, reads: Iterable[tuple[int, int, State]]) -> None:
    """A reader that must see the value from before an update has to come before it.

    ``reads`` holds calls, the storage read, and the state (the calls with side effects that had happened) it was loaded
    in. MindSpore orders such readers itself; this makes sure.
    """
    writers: dict[int, list[int]] = {}
    for n, call in enumerate(raw.calls):
        for storage in call.writes:
            if raw.storages[storage].source != "call":
                writers.setdefault(storage, []).append(n)
    for reader, storage, state in reads:
        for writer in writers.get(storage, ()):
            if writer < reader and writer not in state.calls and storage not in raw.calls[reader].writes:
                raise CaptureError(
                    f"{raw.calls[reader].domain} needs the value of {raw.storages[storage].name!r} from before "
                    f"{raw.calls[writer].domain} updates it, but MindSpore ordered it after"
                )
