"""Who holds the device memory at a time, in words: grouped, with what is not needed then and what would lower it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.dashboard.theme import class_colour, class_title
from app.dashboard.views.clipping import clipped
from app.dashboard.views.step import StepView
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.alive import Alive, AliveGroup, Group, group_alive
from profiles.filtering import quoted
from profiles.moment import Moment, moment, total

GROUP_TITLES: dict[Group, str] = {"class": "Class", "layer": "Layer", "op": "Made by", "name": "Name"}
MOST_GROUPS = 12
MOST_HOLDERS = 8
MOST_LEAVING = 3


@dataclass(frozen=True, slots=True)
class Holder:
    """One storage or workspace (``storage`` None) on the device."""

    storage: int | None
    text: str
    colour: str
    bytes: int
    share: float
    when: str


@dataclass(frozen=True, slots=True)
class HolderGroup:
    """``holders`` are the largest, ``left_out`` how many more there are; ``query`` finds all of them in the search,
    empty where the search has no word for the group."""

    title: str
    colour: str
    bytes: int
    share: float
    count: int
    holders: tuple[Holder, ...]
    left_out: int
    query: str


@dataclass(frozen=True, slots=True)
class Way:
    """One way to hold less at this time: a sentence, and the storages it is about (id, words)."""

    title: str
    text: str
    storages: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class MomentView:
    """Everything said about one moment. ``levels`` are (title, size, meaning), ``colours`` (title, colour, share) of a
    bar by tensor class; ``groups_left`` names what is not shown, ``lower_limit_bytes`` is a limit to ask about."""

    title: str
    summary: str
    levels: tuple[tuple[str, str, str], ...]
    colours: tuple[tuple[str, str, float], ...]
    groups: tuple[HolderGroup, ...]
    groups_left: str
    ways: tuple[Way, ...]
    at_peak: bool
    lower_limit_bytes: int


def moment_view(view: StepView, time_ns: int, by: Group) -> MomentView:
    """The moment at a time of the step, grouped."""
    found = moment(view.profile, time_ns, view.step)
    groups = group_alive(found.alive, by)
    at_peak = time_ns == view.peak[0]
    when = "peak" if at_peak else f"{time_ns}ns"
    left = groups[MOST_GROUPS:]
    at = f"at {format_ns(time_ns)}"
    return MomentView(
        title=f"On the device {at}" + (" (the peak)" if at_peak else ""),
        summary=_summary(found, view),
        levels=_levels(found),
        colours=tuple(
            (f"{class_title(g.name)} {format_bytes(g.bytes)} ({g.share:.0%})", class_colour(g.name), g.share)
            for g in group_alive(found.alive, "class")
        ),
        groups=tuple(_group(g, by, when, found.live_bytes) for g in groups[:MOST_GROUPS]),
        groups_left=(
            f"and {len(left):,} smaller groups with {format_bytes(sum(g.bytes for g in left))}" if left else ""
        ),
        ways=tuple(_ways(found, view)),
        at_peak=at_peak,
        lower_limit_bytes=found.live_bytes * 9 // 10,
    )


def storages_counted(count: int) -> str:
    return "one storage or workspace" if count == 1 else f"{count:,} storages and workspaces"


def _summary(found: Moment, view: StepView) -> str:
    if not found.alive:
        return f"Nothing is on the device at this time, {view.kind}."
    largest = found.alive[0]
    return (
        f"{format_bytes(found.live_bytes)} in {storages_counted(len(found.alive))}, {view.kind}. "
        f"The largest: {clipped(largest.name)}{' (workspace)' if largest.storage is None else ''}, "
        f"{format_bytes(largest.bytes)} ({largest.bytes / found.live_bytes:.1%})."
    )


def _levels(found: Moment) -> tuple[tuple[str, str, str], ...]:
    """(title, bytes, meaning) of the three levels and the two differences."""
    live, needed, reserved = found.live_bytes, found.needed_bytes, found.reserved_bytes
    levels = [
        ("Needed", format_bytes(needed), "between the first and the last use of each stay"),
        ("Retention", f"+ {format_bytes(live - needed)}", "here before its first use or after its last one"),
        ("Live", format_bytes(live), "on the device"),
        ("Fragmentation", f"+ {format_bytes(reserved - live)}", "gaps between addresses"),
        ("Reserved", format_bytes(reserved), "up to the highest address in use"),
    ]
    if found.limit_bytes:
        share = f"{reserved / found.limit_bytes:.0%} of it reserved"
        levels.append(("Limit", format_bytes(found.limit_bytes), share))
    return tuple(levels)


def _group(group: AliveGroup, by: Group, when: str, whole: int) -> HolderGroup:
    shown = group.members[:MOST_HOLDERS]
    classes = {a.tensor_class for a in group.members}
    return HolderGroup(
        title=class_title(group.name) if by == "class" else group.name,
        colour=class_colour(classes.pop()) if len(classes) == 1 else "",
        bytes=group.bytes,
        share=group.share,
        count=group.count,
        holders=tuple(_holder(a, whole) for a in shown),
        left_out=group.count - len(shown),
        query=_query(group, by, when),
    )


def _query(group: AliveGroup, by: Group, when: str) -> str:
    named = {
        "class": f"class:{group.name}",
        "layer": f"layer:{quoted(group.members[0].layer)}" if group.members[0].layer else "",
        "op": "",
        "name": f"name:{quoted(group.name)}",
    }[by]
    return f"at:{when} {named} in:storages" if named and any(a.storage is not None for a in group.members) else ""


def _holder(alive: Alive, whole: int) -> Holder:
    return Holder(
        storage=alive.storage,
        text=clipped(alive.name) + ("" if alive.storage is not None else " (workspace)"),
        colour=class_colour(alive.tensor_class),
        bytes=alive.bytes,
        share=alive.bytes / whole,
        when=f"{format_ns(alive.start_ns)} to {format_ns(alive.end_ns)}",
    )


def _ways(found: Moment, view: StepView) -> list[Way]:
    """What would lower memory here, the largest first, and what cannot."""
    ways: list[tuple[int, Way]] = []
    leaving = sorted(found.leaving, key=lambda i: -i.alive.bytes)
    if leaving:
        size = total(i.alive for i in leaving)
        text = (
            f"{format_bytes(size)} in {_count(len(leaving))} not used for long enough around this time to leave and "
            "come back. The largest:"
        )
        named = [
            (
                i.alive.storage,
                f"{clipped(i.alive.name)}: {format_bytes(i.alive.bytes)}, idle for {format_ns(i.end_ns - i.start_ns)}, "
                f"its copies take {format_ns(i.round_trip_ns)}",
            )
            for i in leaving[:MOST_LEAVING]
        ]
        ways.append((size, Way("Offload more", text, tuple((s, t) for s, t in named if s is not None))))
    for retained, title, why in (
        (found.early, "Not needed yet", "here before the first use: away until then, they would leave room"),
        (found.late, "Not needed any more", "here after the last use, or until a Store has ended"),
    ):
        size = total(retained)
        if size:
            text = f"{format_bytes(size)} in {_count(len(retained))} {why}. The largest:"
            ways.append((size, Way(title, text, _largest(retained))))
    if found.fragmented_bytes:
        text = f"{format_bytes(found.fragmented_bytes)} of address space lie in gaps between storages."
        ways.append((found.fragmented_bytes, Way("Pack tighter", text)))
    result = [way for _, way in sorted(ways, key=lambda w: -w[0])]
    short = [i for i in found.idle if not i.could_leave]
    if short:
        briefly = format_bytes(total(i.alive for i in short))
        text = f"{briefly} in {_count(len(short))} idle, but for less time than the copies out and in would take."
        result.append(Way("Idle too briefly", text, _largest([i.alive for i in short])))
    if found.used:
        graph = view.profile.schedule.graph
        names = " and ".join(clipped(graph.ops[op].name) for op in found.ops[:2]) or "what runs"
        text = f"{format_bytes(total(found.used))} in {_count(len(found.used))} in use by {names} at this moment."
        result.append(Way("Cannot leave", text, _largest(found.used)))
    return result


def _largest(alive: Sequence[Alive]) -> tuple[tuple[int, str], ...]:
    ranked = sorted(alive, key=lambda a: -a.bytes)[:3]
    return tuple((a.storage, f"{clipped(a.name)}: {format_bytes(a.bytes)}") for a in ranked if a.storage is not None)


def _count(count: int) -> str:
    return "1 storage that is" if count == 1 else f"{count:,} storages that are"
