"""Where the storages of one step are, as CSV: through the tiers, and at which addresses."""

from __future__ import annotations

from collections.abc import Iterator

from hyperoffload_core.errors import UserError
from hyperoffload_core.recording import Profile
from profiles.addresses import addresses
from profiles.lanes import lanes, step_end_ns
from profiles.plain import csv_table, csv_text
from profiles.tiers import TIERS, placements

TIER_COLUMNS = ("storage", "name", "class", "bytes", "tier", "from_ns", "to_ns")
ADDRESS_COLUMNS = ("storage", "name", "class", "offset_bytes", "bytes", "from_ns", "to_ns")


class PlaceError(UserError):
    """A profile that does not say where its storages lay."""


def tiers_csv(profile: Profile, step: int = 0) -> str:
    """A row a stretch in which a storage is in one of `TIERS`, by storage, then time; none where it is nowhere."""

    def rows() -> Iterator[tuple[int | str, ...]]:
        found = placements(profile, step_end_ns(profile, lanes(profile, step), step), step)
        for s in profile.schedule.graph.storages:
            bar = found.bar(s.id)
            head = (s.id, csv_text(s.name), s.tensor_class, s.bytes)
            for tier, start, end in zip(bar.tier.tolist(), bar.start_ns.tolist(), bar.end_ns.tolist(), strict=True):
                yield (*head, TIERS[tier], start, end)

    return csv_table(TIER_COLUMNS, rows())


def addresses_csv(profile: Profile, step: int = 0) -> str:
    """A row a stay of a storage on the device, by start. Raises `PlaceError` where no address was recorded."""
    found = addresses(profile, step)
    if not len(found.storage) and len(profile.lifetimes.storage):
        raise PlaceError("MindSpore's graph mode chose the addresses of this run, and does not tell them")
    storages = profile.schedule.graph.storages
    columns = (found.storage, found.low, found.high, found.start_ns, found.end_ns)

    def rows() -> Iterator[tuple[int | str, ...]]:
        for storage, low, high, start, end in zip(*(c.tolist() for c in columns), strict=True):
            s = storages[storage]
            yield storage, csv_text(s.name), s.tensor_class, low, high - low, start, end

    return csv_table(ADDRESS_COLUMNS, rows())
