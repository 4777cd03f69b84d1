"""What the verifier reports."""

from __future__ import annotations

from typing import Literal

Rule = Literal[
    "structure",  # ids, references, one entry per op
    "order",  # 1: dependencies
    "residency",  # 2: on the device, with its data, for the op's whole duration
    "store",  # 3: finished data leaves, and nobody changes either copy meanwhile
    "detach",  # 3: the device copy is dropped only with a valid remote copy
    "prefetch",  # 4: a valid remote copy comes, after any store of it
    "link",  # 5: one transfer at a time
    "limit",  # 6: live bytes and address space
    "address",  # 6: two stays alive at once share no byte
    "home",  # 7: where the step leaves storages
    "keep",  # 7: what a rule keeps, or cannot move, stays on the device
    "transfer",  # 8: one transfer per storage, parts that cover it once
    "recompute",  # 1: a second run gives what the first gave, and no op of the graph is missing
    "deadlock",  # 9: nothing waits in a circle
    "time",  # durations, and starts no earlier than what is waited for
    "metrics",  # the numbers follow from the timeline
]
Form = Literal["timed", "events"]


class ScheduleViolation(ValueError):  # noqa: N818 - the name says what it is: a schedule's fault, not a program's
    """One broken rule: ``op`` and ``storage`` ids where one is concerned, ``time_ns`` the planned time of the fault.

    ``form`` is "events" where the planned times are fine but other durations would break the rule.
    """

    def __init__(
        self,
        rule: Rule,
        message: str,
        op: int | None = None,
        storage: int | None = None,
        time_ns: int = 0,
        form: Form = "timed",
    ) -> None:
        super().__init__(f"{message} (at {time_ns / 1e6:.6g} ms)")
        self.rule: Rule = rule
        self.op = op
        self.storage = storage
        self.time_ns = time_ns
        self.form: Form = form
