"""What of a choice of gaps needs an address, when it must have one, and which of them share bytes in turn.

A row is a stay, or the workspace of an op. It holds its address at least from the op that first needs it to the last
that does; rows that hold theirs at the same op never share a byte. Others may: the later one then waits until the
earlier one has left, whatever the times are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.passes.addresses import alignment_bytes
from hyperoffload_core.passes.insertion import Inserted
from hyperoffload_core.passes.play import Problem

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Tenants:
    """Rows: the stays, then the workspaces, ``begin`` to ``last`` (positions, inclusive) being the ops that need them.

    Blocks need one address: each is a row, or the rows of a persistent storage at home on the device that touch the
    step boundary. ``block`` is by row, ``size``, ``alignment`` and ``rows`` are by block. ``workspaces`` are the
    positions of the ops that have one.
    """

    begin: Integers
    last: Integers
    block: Integers
    size: Integers
    alignment: Integers
    rows: tuple[tuple[int, ...], ...]
    workspaces: tuple[int, ...]


def tenants_of(problem: Problem, inserted: Inserted) -> Tenants:
    stays, count = inserted.stays, len(problem.order)
    groups: dict[tuple[int, int], list[int]] = {}
    for index, stay in enumerate(stays):
        at_home = inserted.homes[stay.storage] == "device" and problem.graph.storages[stay.storage].persistent
        at_boundary = at_home and (stay.begin == -1 or stay.to_end)
        groups.setdefault((stay.storage, -1 if at_boundary else index), []).append(index)
    workspaces = tuple(p for p in range(count) if problem.workspace_bytes[p])
    rows = [tuple(members) for members in groups.values()]
    rows += [(len(stays) + k,) for k in range(len(workspaces))]
    sizes = [problem.storage_bytes[stays[members[0]].storage] for members in groups.values()]
    sizes += [problem.workspace_bytes[p] for p in workspaces]
    block = np.zeros(len(stays) + len(workspaces), np.int64)
    for number, members in enumerate(rows):
        block[list(members)] = number
    return Tenants(
        begin=np.array([*(s.begin for s in stays), *workspaces], np.int64),
        last=np.array([*(count if s.to_end else max(s.begin, s.last) for s in stays), *workspaces], np.int64),
        block=block,
        size=np.array(sizes, np.int64),
        alignment=np.array([alignment_bytes(size) for size in sizes], np.int64),
        rows=tuple(rows),
        workspaces=workspaces,
    )


class Layout:
    """An address for every block, and who waits for whom because of them.

    ``before[row]`` are the rows with bytes in common that are needed earlier, ``behind[row]`` those needed later.
    """

    def __init__(self, tenants: Tenants, offsets: Integers) -> None:
        self.tenants = tenants
        self.offset = offsets.copy()
        self.low = self.offset[tenants.block]
        self.high = self.low + tenants.size[tenants.block]
        self.before: list[list[int]] = [[] for _ in self.low]
        self.behind: list[list[int]] = [[] for _ in self.low]
        for row in range(len(self.low)):
            self.before[row] = self._sharing(row, tenants.last < tenants.begin[row])
            for other in self.before[row]:
                self.behind[other].append(row)

    def move(self, block: int, offset: int) -> None:
        """Give a block another address. Nothing that ops need together with it may lie there."""
        tenants, rows = self.tenants, self.tenants.rows[block]
        for row in rows:
            for other in self.before[row]:
                self.behind[other].remove(row)
            for other in self.behind[row]:
                self.before[other].remove(row)
        self.offset[block] = offset
        for row in rows:
            self.low[row] = offset
            self.high[row] = offset + tenants.size[block]
        for row in rows:
            self.before[row] = self._sharing(row, tenants.last < tenants.begin[row])
            self.behind[row] = self._sharing(row, tenants.begin > tenants.last[row])
            for other in self.before[row]:
                self.behind[other].append(row)
            for other in self.behind[row]:
                self.before[other].append(row)

    def _sharing(self, row: int, which: NDArray[np.bool_]) -> list[int]:
        tenants = self.tenants
        shared = which & (self.low < self.high[row]) & (self.high > self.low[row])
        shared[list(tenants.rows[tenants.block[row]])] = False
        result: list[int] = np.flatnonzero(shared).tolist()
        return result
