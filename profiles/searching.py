"""What of a step a search finds: its ops, storages and transfers as columns, and the rows that meet a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.errors import near_matches
from hyperoffload_core.explain.verdicts import Cause, TransferVerdict, transfer_verdicts
from hyperoffload_core.ir import PHASES, TENSOR_CLASSES, Graph
from hyperoffload_core.recording import Profile
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.alive import layer_of, storage_layers
from profiles.filtering import FIELDS, KINDS, PEAK, PLURALS, Kind, Query, Term, pattern
from profiles.lanes import lanes

FOUND_ORDER: tuple[Kind, ...] = ("storage", "transfer", "op")

Column = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Coded:
    """A word for each row: ``words[codes[row]]``."""

    words: tuple[str, ...]
    codes: Column

    def __getitem__(self, row: int) -> str:
        return self.words[int(self.codes[row])]


@dataclass(frozen=True)
class Things:
    """All ops, storages or transfers of one step, a row each; ``ids`` are theirs in the schedule.

    ``numbers`` (bytes and ns) and ``words`` by field of the language; ``sets`` have a bit for each of the field's
    choices. ``weight`` is what ranks them: bytes of storages, blocking (else link) time of transfers, duration of ops.
    """

    kind: Kind
    ids: Column
    names: Sequence[str]
    numbers: Mapping[str, Column]
    words: Mapping[str, Coded]
    sets: Mapping[str, Column]
    weight: Column


@dataclass(frozen=True)
class Stays:
    """When which storage is on the device."""

    storage: Column
    start_ns: Column
    end_ns: Column


@dataclass(frozen=True)
class Searchable:
    """Everything of one step that can be found; ``peak_ns`` is what ``at:peak`` means."""

    things: Mapping[Kind, Things]
    stays: Stays
    peak_ns: int


@dataclass(frozen=True)
class Hits:
    """Rows of one kind that were found, the heaviest first."""

    things: Things
    rows: Column

    @property
    def count(self) -> int:
        return len(self.rows)

    def total(self, field: str) -> int:
        """Bytes or ns of all hits together."""
        return int(self.things.numbers[field][self.rows].sum()) if field in self.things.numbers else 0


@dataclass(frozen=True)
class Found:
    """Hits by kind (kinds without any are left out); ``hint`` says, where nothing was found, what to look at."""

    hits: Mapping[Kind, Hits]
    hint: str = ""

    @property
    def count(self) -> int:
        return sum(h.count for h in self.hits.values())


def searchable(
    profile: Profile, step: int, peak_ns: int, verdicts: Iterable[TransferVerdict] | None = None
) -> Searchable:
    """The columns of one step; ``verdicts`` on its transfers if they are at hand."""
    rows = (profile.lifetimes.step == step) & (profile.lifetimes.end_ns > profile.lifetimes.start_ns)
    life = profile.lifetimes
    stays = Stays(life.storage[rows], life.start_ns[rows], life.end_ns[rows])
    verdicts = list(transfer_verdicts(profile, step) if verdicts is None else verdicts)
    ops = _ops(profile, step)
    transfers = _transfers(profile, step, verdicts, ops)
    things: dict[Kind, Things] = {
        "op": ops,
        "storage": _storages(profile.schedule.graph, stays, transfers),
        "transfer": transfers,
    }
    return Searchable(things, stays, peak_ns)


def find(searched: Searchable, query: Query) -> Found:
    """Everything that meets all terms of a query."""
    hits: dict[Kind, Hits] = {}
    for kind in KINDS:
        things = searched.things[kind]
        if kind in query.kinds and len(things.ids):
            mask = np.ones(len(things.ids), np.bool_)
            for term in query.terms:
                mask &= _meets(searched, things, term)
            rows = np.flatnonzero(mask)
            if len(rows):
                hits[kind] = Hits(things, rows[np.argsort(-things.weight[rows], kind="stable")])
    return Found(hits, "" if hits else _hint(searched, query))


def found_words(found: Found) -> str:
    """How many of each kind, how large, how long; where there is nothing, why."""
    if not found.count:
        return f"Nothing found: {found.hint}."
    return f"{'; '.join(_counted(found.hits[kind]) for kind in FOUND_ORDER if kind in found.hits)}."


def _counted(hits: Hits) -> str:
    kind = hits.things.kind
    words = f"{hits.count:,} {PLURALS[kind] if hits.count != 1 else kind}"
    if kind != "op":
        words += f" of {format_bytes(hits.total('size'))}"
    if kind != "storage":
        words += f", {format_ns(hits.total('duration'))} in all"
    blocking = hits.total("blocking")
    return words + (f", {format_ns(blocking)} blocking" if blocking else "")


def _hint(searched: Searchable, query: Query) -> str:
    """Which single term is to blame, with words that do exist."""
    for term in query.terms:
        tables = [searched.things[kind] for kind in query.kinds]
        if term.negated or any(_meets(searched, t, term).any() for t in tables if len(t.ids)):
            continue
        field = FIELDS[term.field]
        if field.sort in ("exact", "word") and field.name != "name":
            known = dict.fromkeys(w for t in tables if field.name in t.words for w in t.words[field.name].words if w)
            near = near_matches(str(term.values[0]), known, 3) or list(known)[:3]
            return f"no {field.name} here is {str(term.values[0])[:60]!r}; there are for instance {', '.join(near)}"
        if field.name == "name":
            return f"no name has {str(term.values[0])[:60]!r} in it"
        return f"nothing here meets {field.name} alone ({field.meaning})"
    return "each term alone finds something, all of them together nothing"


def _meets(searched: Searchable, things: Things, term: Term) -> Mask:
    mask = _plain(searched, things, term)
    return ~mask if term.negated else mask


def _plain(searched: Searchable, things: Things, term: Term) -> Mask:
    field = FIELDS[term.field]
    if field.name == "in":
        return np.full(len(things.ids), PLURALS[things.kind] in term.values)
    if field.name == "at":
        time = int(term.values[0])
        return _at(searched, things, searched.peak_ns if time == PEAK else time)
    if field.name in things.sets:
        bits = sum(1 << field.choices.index(str(v)) for v in term.values)
        return np.asarray((things.sets[field.name] & bits) != 0)
    if field.name in things.words:
        coded = things.words[field.name]
        return np.asarray(_named(coded.words, term)[coded.codes])
    if field.name == "name":
        return _named(things.names, term)
    return _compared(things.numbers[field.name], term)


def _named(names: Sequence[str], term: Term) -> Mask:
    """Which names match one of the words of a term; layers also by their number alone."""
    sort = FIELDS[term.field].sort
    mask = np.zeros(len(names), np.bool_)
    for word in map(str, term.values):
        if sort == "word" and "*" not in word and "?" not in word:
            mask |= np.fromiter((word in name.lower() for name in names), np.bool_, len(names))
            continue
        match = pattern(word).fullmatch
        tail = term.field == "layer"
        mask |= np.fromiter(
            (bool(match(name) or (tail and match(name.rpartition(".")[2]))) for name in names), np.bool_, len(names)
        )
    return mask


def _compared(column: Column, term: Term) -> Mask:
    value = int(term.values[0])
    compare: dict[str, Callable[[Column, int], Mask]] = {
        "=": np.equal,
        ">": np.greater,
        ">=": np.greater_equal,
        "<": np.less,
        "<=": np.less_equal,
    }
    return np.asarray(compare[term.relation](column, value), np.bool_)


def _at(searched: Searchable, things: Things, time_ns: int) -> Mask:
    if things.kind == "storage":
        stays = searched.stays
        mask = np.zeros(len(things.ids), np.bool_)
        mask[stays.storage[(stays.start_ns <= time_ns) & (stays.end_ns > time_ns)]] = True
        return mask
    return np.asarray((things.numbers["start"] <= time_ns) & (things.numbers["end"] > time_ns))


def _ops(profile: Profile, step: int) -> Things:
    """Every op that ran, in time order."""
    graph, lane = profile.schedule.graph, lanes(profile, step)
    ran = lane.compute
    blocking = np.zeros(len(ran.item), np.int64)
    # Waiting ends when the op behind it starts, or with the step.
    before = np.searchsorted(ran.start_ns, lane.waiting.end_ns, side="left")
    waits = (lane.waiting.end_ns - lane.waiting.start_ns)[before < len(blocking)]
    np.add.at(blocking, before[before < len(blocking)], waits)
    ops = [graph.ops[op] for op in ran.item.tolist()]
    duration = ran.end_ns - ran.start_ns
    return Things(
        "op",
        ran.item,
        [op.name for op in ops],
        {"start": ran.start_ns, "end": ran.end_ns, "duration": duration, "blocking": blocking},
        {
            "layer": _coded([layer_of(op.scope) for op in ops]),
            "op": _coded([op.primitive for op in ops]),
            "scope": _coded([op.scope for op in ops]),
        },
        {
            "phase": _bits([1 << PHASES.index(op.phase) for op in ops]),
            "is": _bits([_IS["recomputed"] if op.recompute_of is not None else 0 for op in ops]),
        },
        duration,
    )


def _storages(graph: Graph, stays: Stays, transfers: Things) -> Things:
    """Every storage of the graph; what its transfers cost is theirs added up."""
    count = len(graph.storages)
    moved = transfers.numbers["storage"]
    sums = {name: np.zeros(count, np.int64) for name in ("blocking", "exposed", "hidden")}
    for name, column in sums.items():
        np.add.at(column, moved, transfers.numbers[name])
    start, end = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, np.int64)
    np.minimum.at(start, stays.storage, stays.start_ns)
    np.maximum.at(end, stays.storage, stays.end_ns)
    start[end < 0] = -1
    phase = np.zeros(count, np.int64)
    op, storage, _ = graph.access_columns
    np.bitwise_or.at(phase, storage, _bits([1 << PHASES.index(o.phase) for o in graph.ops])[op])
    leaves = np.zeros(count, np.bool_)
    leaves[moved] = True
    size = _bits([s.bytes for s in graph.storages])
    fixed = _bits(
        [
            (_IS["persistent"] if s.persistent else 0) | (_IS["recomputed"] if s.recompute_of is not None else 0)
            for s in graph.storages
        ]
    )
    return Things(
        "storage",
        np.arange(count),
        [s.name for s in graph.storages],
        {"size": size, "start": start, "end": end, **sums},
        {"layer": _coded(storage_layers(graph))},
        {
            "class": _bits([1 << TENSOR_CLASSES.index(s.tensor_class) for s in graph.storages]),
            "phase": phase,
            "is": fixed | np.where(leaves, _IS["moved"], np.where(end < 0, 0, _IS["resident"])),
        },
        size,
    )


def _transfers(profile: Profile, step: int, verdicts: Sequence[TransferVerdict], ops: Things) -> Things:
    """Every transfer of the step in the order of the schedule, with the phase that runs when it starts."""
    graph, moves = profile.schedule.graph, profile.transfers
    rows = np.flatnonzero(moves.step == step)
    by_id = {v.transfer: v for v in verdicts}
    found = [by_id[t] for t in moves.transfer[rows].tolist()]
    storage, start, end = moves.storage[rows], moves.start_ns[rows], moves.end_ns[rows]
    layers = storage_layers(graph)
    of = storage.tolist()
    running = np.maximum(np.searchsorted(ops.numbers["start"], start, side="right") - 1, 0)
    blocking = _bits([v.blocking_ns for v in found])
    causes = get_args(Cause)
    return Things(
        "transfer",
        moves.transfer[rows],
        [graph.storages[s].name for s in of],
        {
            "storage": storage,
            "size": moves.bytes[rows],
            "start": start,
            "end": end,
            "duration": end - start,
            "blocking": blocking,
            "exposed": _bits([v.exposed_ns for v in found]),
            "hidden": _bits([v.hidden_ns for v in found]),
            "slack": _bits([v.slack_ns for v in found]),
        },
        {"layer": _coded([layers[s] for s in of])},
        {
            "class": _bits([1 << TENSOR_CLASSES.index(graph.storages[s].tensor_class) for s in of]),
            "phase": ops.sets["phase"][running] if len(ops.ids) else np.zeros(len(rows), np.int64),
            "way": np.where(moves.direction[rows] == 1, 1, 2),
            "cause": _bits([1 << causes.index(v.cause) for v in found]),
        },
        # Those that block first; of the others those that hold the link longest.
        np.where(blocking > 0, blocking + (end - start).max(initial=0), end - start),
    )


_IS = {word: 1 << place for place, word in enumerate(FIELDS["is"].choices)}


def _bits(values: Sequence[int]) -> Column:
    return np.array(values, dtype=np.int64)


def _coded(words: Sequence[str]) -> Coded:
    place: dict[str, int] = {}
    codes = np.fromiter((place.setdefault(w, len(place)) for w in words), np.int64, len(words))
    return Coded(tuple(place), codes)
