"""What a strategy hands to the passes behind it: an order, the stays of storages on the device, and the transfers.

Positions count ops of the order from 0 to n - 1; -1 is the start of the step, n its end.
"""

from __future__ import annotations

from dataclasses import dataclass

from hyperoffload_core.ir import Graph
from hyperoffload_core.schedule import Home, TransferKind


@dataclass(frozen=True, slots=True)
class PlannedTransfer:
    """One Prefetch or Store. It may start once the op at ``after`` has ended (-1: from the start of the step).

    A storage that moves in parts has several, one behind the other on one link: each moves ``bytes`` from
    ``offset_bytes`` on (None: the whole storage). Stays and all else in a plan name the first one to run; the others
    say by ``part_of`` which that is.
    """

    kind: TransferKind
    storage: int
    after: int
    bytes: int | None = None
    offset_bytes: int = 0
    part_of: int | None = None


@dataclass(frozen=True, slots=True)
class Stay:
    """One stay of a storage on the device.

    ``begin``: position of the op that first needs it (its producer, or the consumer of its Prefetch); -1 if it is there
    when the step starts. ``last``: position of the last op that uses it during the stay (-1: none). ``to_end``: it is
    there when the step ends. ``fetch`` and ``store`` index the plan's transfers that begin the stay and that make the
    remote copy valid before it ends; None where there is none.
    """

    storage: int
    begin: int
    last: int
    to_end: bool
    fetch: int | None = None
    store: int | None = None


@dataclass(frozen=True)
class Plan:
    """``links`` holds, per link, indices of ``transfers`` in the order they run: (out, in), or one for half duplex.

    ``offsets[stay]`` are addresses if the strategy assigns them itself (a run-time allocator), else None and the
    address pass does; ``workspace_offsets`` are then (position, offset) of the ops that have a workspace.
    ``spans_ns[stay]`` and ``op_spans_ns[position]`` are the predicted (start, end) of each stay and op, which the
    address pass packs; with given offsets they only order the stays in time. ``waits`` are (position, transfer): the
    op waits for the transfer although neither data nor addresses ask for it, as run-time systems do that hold compute
    until a copy has ended. ``follows`` are (transfer, earlier transfer): the one starts after the other although they
    run on different links, as on systems with one copy stream for both directions. ``graph`` is the graph the plan is
    of where recomputed ops were added to the one asked for (`passes.recomputation`), else None.
    """

    order: tuple[int, ...]
    stays: tuple[Stay, ...]
    transfers: tuple[PlannedTransfer, ...]
    links: tuple[tuple[int, ...], ...]
    homes: tuple[Home, ...]
    spans_ns: tuple[tuple[int, int], ...]
    op_spans_ns: tuple[tuple[int, int], ...]
    offsets: tuple[int, ...] | None = None
    workspace_offsets: tuple[tuple[int, int], ...] = ()
    waits: tuple[tuple[int, int], ...] = ()
    follows: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
    graph: Graph | None = None

    def last_parts(self) -> list[int]:
        """Per transfer the one that ends the move which it begins: itself, where it moves its storage whole."""
        result = list(range(len(self.transfers)))
        for sequence in self.links:
            for index in sequence:
                first = self.transfers[index].part_of
                if first is not None:
                    result[first] = index
        return result


def moved_bytes(graph: Graph, transfer: PlannedTransfer) -> int:
    """What the transfer moves: its storage, or its part of it."""
    return graph.storages[transfer.storage].bytes if transfer.bytes is None else transfer.bytes
