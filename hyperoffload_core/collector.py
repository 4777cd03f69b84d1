"""Python's collector of cyclic garbage, held back while much is made at once: a schedule, a comparison, a report."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Making a schedule, reading one, or comparing two creates up to millions of small objects and no cycles; the
    collector would walk all of them, and the whole graph, again and again (a third to half of the time at 100,000 ops).
    """
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()
