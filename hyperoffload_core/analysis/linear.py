"""Linear programs, also with whole numbers, solved by HiGHS (scipy's own)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


class LinearProgram:
    """Columns with bounds and rows that say "at most", collected one after the other; sparse."""

    def __init__(self) -> None:
        self._lower: list[float] = []
        self._upper: list[float] = []
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._values: list[float] = []
        self._limits: list[float] = []
        self._long: list[tuple[int, NDArray[np.int64], NDArray[np.float64]]] = []

    def column(self, lower: float = 0.0, upper: float = 1.0) -> int:
        self._lower.append(lower)
        self._upper.append(upper)
        return len(self._lower) - 1

    @property
    def columns(self) -> int:
        return len(self._lower)

    def at_most(
        self, terms: Iterable[tuple[int, float]], limit: float, more: NDArray[np.float64] | None = None
    ) -> None:
        """A row of (column, value); ``more`` are further values, of the first columns."""
        row = len(self._limits)
        self._limits.append(limit)
        if more is not None:
            used = np.flatnonzero(more)
            self._long.append((row, used, more[used]))
        for column, value in terms:
            self._rows.append(row)
            self._columns.append(column)
            self._values.append(value)

    def minimise(self, cost: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]] | None:
        """The least cost and the columns' values; ``cost`` is a weight per column. None without an answer."""
        # Over half a second to import, and commands that plan nothing are quick.
        from scipy.optimize import linprog

        bounds = np.column_stack([self._lower, self._upper])
        answer = linprog(cost, A_ub=self._matrix(), b_ub=self._limits, bounds=bounds, method="highs")
        return None if answer.status != 0 else (float(answer.fun), answer.x)

    def minimise_whole(
        self, cost: NDArray[np.float64], whole: int, seconds: float, gap: float
    ) -> tuple[float, NDArray[np.float64]] | None:
        """As `minimise`, with whole numbers in the first ``whole`` columns.

        Ends within ``gap`` (a part of the cost) of the least cost, at the root of the search or after so many seconds,
        whichever comes first; None where no answer was found by then.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        answer = milp(
            cost,
            integrality=np.arange(len(cost)) < whole,
            bounds=Bounds(self._lower, self._upper),
            constraints=LinearConstraint(self._matrix(), -np.inf, self._limits),
            options={"node_limit": 1, "mip_rel_gap": gap, "time_limit": seconds},
        )
        return None if answer.x is None else (float(answer.fun), answer.x)

    def _matrix(self) -> Any:
        from scipy.sparse import coo_matrix

        counts = [len(used) for _, used, _ in self._long]
        rows = np.concatenate((np.array(self._rows, np.int64), np.repeat([row for row, _, _ in self._long], counts)))
        columns = np.concatenate((np.array(self._columns, np.int64), *(used for _, used, _ in self._long)))
        values = np.concatenate((np.array(self._values, np.float64), *(more for _, _, more in self._long)))
        shape = (len(self._limits), len(self._lower))
        return coo_matrix((values, (rows.astype(np.int64), columns)), shape=shape).tocsr()
