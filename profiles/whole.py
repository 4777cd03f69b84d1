"""All steps of a profile on one time axis."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from hyperoffload_core.recording import Column, OpEvents, Profile, StorageLifetimes, TransferEvents

Events = TypeVar("Events", OpEvents, TransferEvents, StorageLifetimes)


def step_starts_ns(profile: Profile) -> Column:
    """When each step starts if every step follows the one before at once, and when the last one ends."""
    length = profile.steps.step_ns.copy()
    for events in (profile.ops, profile.transfers):
        np.maximum.at(length, events.step, events.end_ns)
    return np.concatenate([[0], np.cumsum(length)]).astype(np.int64)


def on_one_axis(profile: Profile) -> Profile:
    """The same events with times from the start of the first step (`step_starts_ns`); each still knows its step."""
    starts = step_starts_ns(profile)

    def moved(events: Events) -> Events:
        since = starts[events.step]
        return replace(events, start_ns=events.start_ns + since, end_ns=events.end_ns + since)

    return replace(
        profile, ops=moved(profile.ops), transfers=moved(profile.transfers), lifetimes=moved(profile.lifetimes)
    )
