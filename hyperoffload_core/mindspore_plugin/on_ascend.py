"""A cell attached on Ascend: MindSpore's own operators and kernels do all that moves; only the graph is ours.

There is no session, no region and no recording: what a step did is for MindSpore's profiler to say. None of this has
run on Ascend; the same edits run on CPU in the tests, with kernels that stand in for Ascend's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hyperoffload_core.mindspore_plugin.ascend import plan_ascend
from hyperoffload_core.mindspore_plugin.attach import Attached, Inserted, compile_with_plan
from hyperoffload_core.mindspore_plugin.nodes import LiveGraph


class AttachedOnAscend(Attached):
    """See `Attached`; parameters stay MindSpore's."""

    @property
    def is_inserted(self) -> bool:
        return self.inserted is not None

    def compile_and_run(self, *args: Any, **kwargs: Any) -> Any:
        # A compiled graph that MindSpore keeps under its phase would be run past this.
        self.cell.phase_cache.clear()
        return type(self.cell).compile_and_run(self.cell, *args, **kwargs)

    def insert_into(self, live: LiveGraph, args: Sequence[Any]) -> None:
        self.forget_compiled()
        planned = plan_ascend(live, self.schedule)
        said = compile_with_plan(self.cell, args, planned.plan)
        self.inserted = Inserted(said.new_nodes, said.changed_inputs, planned.stays)

    def release(self) -> None:
        self.inserted = None
