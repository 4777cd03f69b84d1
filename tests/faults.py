"""One deliberate fault per way in which a schedule can be wrong, put into a valid one.

Unlike the random damage of `tests.mutations`, each is certain to break its rule: by construction, or, for edges that
others may imply, because `tests.slow_events` shows a timing that breaks it. A damage returns None for a schedule in
which it finds no place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from hyperoffload_core.schedule import Schedule
from hyperoffload_core.verifier import Rule
from tests import faults_of_form as form
from tests import faults_of_keeping as kept
from tests import faults_of_memory as memory
from tests import faults_of_values as values
from tests.valid_schedules import SOURCES

Damage = Callable[[Random, Schedule], Schedule | None]
MOVING = tuple(s for s in SOURCES if s != "none")
PARTS = ("naive in parts",)


@dataclass(frozen=True)
class Fault:
    """``damage`` breaks ``rule``; with form "events" the planned times stay right (but for deadlocks).

    ``invariant`` is the rule's number in the design's list, 0 for what the list takes for granted; ``sources`` make
    schedules with a place for the fault.
    """

    damage: Damage
    rule: Rule
    invariant: int
    form: Literal["timed", "events"] = "timed"
    sources: Sequence[str] = SOURCES

    def __str__(self) -> str:
        return self.damage.__name__


FAULTS = (
    Fault(values.run_before_what_it_depends_on, "order", 1),
    Fault(values.write_in_place_before_an_earlier_reader, "order", 1),
    Fault(form.run_an_op_twice, "structure", 1),
    Fault(form.leave_an_op_out, "structure", 1),
    Fault(values.stay_ends_before_its_last_user, "residency", 2),
    Fault(values.have_no_place_for_an_operand, "residency", 2),
    Fault(values.run_before_the_operand_has_arrived, "residency", 2, sources=MOVING),
    Fault(values.wait_for_too_little_of_the_operand, "residency", 2, "events", MOVING),
    Fault(values.store_while_it_is_written, "store", 3, sources=MOVING),
    Fault(values.store_without_waiting_for_the_writer, "store", 3, "events", MOVING),
    Fault(values.leave_without_a_valid_copy, "detach", 3, sources=MOVING),
    Fault(values.leave_without_a_valid_copy, "prefetch", 4, sources=MOVING),
    Fault(values.come_back_while_it_leaves, "prefetch", 4, sources=MOVING),
    Fault(values.come_back_without_waiting_for_the_store, "prefetch", 4, "events", MOVING),
    Fault(values.come_back_once_a_part_is_stored, "prefetch", 4, "events", PARTS),
    Fault(memory.two_transfers_at_once, "link", 5, sources=MOVING),
    Fault(memory.both_directions_of_a_half_duplex_link, "link", 5, sources=MOVING),
    Fault(memory.hold_more_than_the_limit, "limit", 6),
    Fault(memory.reserve_more_than_the_limit, "limit", 6, "events", MOVING),
    Fault(memory.a_workspace_above_the_limit, "limit", 6),
    Fault(memory.share_bytes_while_both_are_there, "address", 6),
    Fault(memory.take_bytes_without_waiting, "address", 6, "events", MOVING),
    Fault(memory.leave_home_before_the_step_ends, "home", 7),
    Fault(memory.come_home_to_another_address, "home", 7, sources=MOVING),
    Fault(memory.keep_the_newest_value_from_the_pool, "home", 7, sources=MOVING),
    Fault(memory.call_the_pool_home_of_what_never_goes_there, "home", 7),
    Fault(memory.call_the_device_home_of_what_comes_from_the_pool, "home", 7, sources=MOVING),
    Fault(kept.move_what_a_rule_keeps, "keep", 7, sources=MOVING),
    Fault(kept.keep_the_home_of_what_a_rule_keeps_in_the_pool, "keep", 7),
    Fault(kept.have_a_rule_that_cannot_be_read, "structure", 7),
    Fault(form.move_twice, "transfer", 8, sources=MOVING),
    Fault(form.bring_what_is_there, "transfer", 8),
    Fault(form.move_a_byte_too_few, "transfer", 8, sources=MOVING),
    Fault(form.move_a_part_beside_its_place, "transfer", 8, sources=MOVING),
    Fault(form.lose_a_part, "transfer", 8, sources=PARTS),
    Fault(form.wait_in_a_circle, "deadlock", 9, "events", MOVING),
    Fault(form.wait_for_what_the_link_does_later, "deadlock", 9, "events", MOVING),
    Fault(form.take_another_time_than_the_op_does, "time", 0),
    Fault(form.take_less_time_than_the_link_does, "time", 0, sources=MOVING),
    Fault(form.start_before_the_op_before_has_ended, "time", 0),
    Fault(form.start_before_a_wait_has_ended, "time", 0, sources=MOVING),
    Fault(form.transfer_before_what_it_waits_for, "time", 0, sources=MOVING),
    Fault(form.tell_a_wrong_number, "metrics", 0),
    Fault(form.name_what_does_not_exist, "structure", 0),
)
