"""`hyperoffload explain`"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.display import console, print_json, print_table, size, time
from app.cli.options import DEFAULT_DATABASE, Database, Json, OptionError

if TYPE_CHECKING:
    from app.dashboard.views.graph_layers import Layers
    from app.surroundings import Surroundings
    from hyperoffload_core.explain.explanation import Explanation
    from hyperoffload_core.explain.moves import MoveVerdict
    from hyperoffload_core.explain.remedies import Remedy
    from hyperoffload_core.explain.stalls import Stall
    from hyperoffload_core.explain.storages import StorageDecision
    from hyperoffload_core.explain.whatif import Answer
    from hyperoffload_core.recording import Profile
    from hyperoffload_core.schedule import Schedule


def explain(
    schedule: Annotated[
        str, typer.Argument(metavar="SCHEDULE", help="A schedule file, or a recorded run (number, label or `latest`).")
    ],
    storage: Annotated[
        str | None,
        typer.Option("--storage", metavar="NAME", help="Why this storage stays or leaves (or a part of names)."),
    ] = None,
    transfer: Annotated[
        int | None, typer.Option("--transfer", metavar="ID", help="What this transfer cost, and all that would help.")
    ] = None,
    stalls: Annotated[bool, typer.Option("--stalls", help="Every stall, the worst first, with its chain.")] = False,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="QUESTION",
            help="`keep NAME`, `prefetch ID earlier by 5ms`, `store ID earlier by 5ms`, `link x2`, `link in 50GB/s`, "
            "`limit 80%`; several times.",
        ),
    ] = None,
    find: Annotated[
        list[str] | None,
        typer.Option(
            "--find",
            metavar="QUERY",
            help="Ops, storages and transfers by name and fields, such as `class:weight blocking>1ms`; several times.",
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Who holds memory at a time (`420ms`) or the `peak`.")
    ] = None,
    between: Annotated[
        str | None,
        typer.Option("--between", metavar="TIME-TIME", help="What happens in a stretch of time, such as `10ms-40ms`."),
    ] = None,
    around: Annotated[
        str | None,
        typer.Option("--around", metavar="NAME", help="The graph around an op or a storage: what waits for what."),
    ] = None,
    hops: Annotated[int, typer.Option("--hops", help="How far --around goes, 0 to 5.")] = 1,
    captured: Annotated[
        bool, typer.Option("--captured", help="--around in the model's graph, without cache operators.")
    ] = False,
    layers: Annotated[
        bool, typer.Option("--layers", help="Every layer, phase by phase: its ops, their time, the bytes they touch.")
    ] = False,
    by: Annotated[
        str, typer.Option("--by", help="How --at groups them: class, layer, op (that makes them) or name.")
    ] = "class",
    step: Annotated[
        int | None, typer.Option("--step", min=0, help="A step of a run; the median one unless named.")
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many rows lists have.")] = 10,
    database: Database = DEFAULT_DATABASE,
    json: Json = False,
) -> None:
    """Explain a step: where it loses time and why, what each transfer cost, why each storage stays or leaves.

    *Hidden* is transfer time beside compute, *exposed* without, *blocking* what delays compute, *slack* how much later
    it could have ended. A cause is a *dependency* (the data was not there), the *link* (busy), *memory* (no room under
    the limit) or the *order* (the schedule could have done better). What would help is tried by playing the step again.

    Examples: `hyperoffload explain latest --what-if "link x2" --what-if "limit 80%"`,
    `hyperoffload explain latest --find "blocking>1ms in:transfers" --at peak --by layer`
    """
    from app.cli.explain_around import around_document, layers_document, print_around, print_layers
    from app.cli.explain_step import print_found, print_moment, print_selection, step_document
    from app.explaining import ask, explained_source, explained_step, found_in, moment_of, named_storages, selection_in
    from hyperoffload_core.explain.explanation import blocking_words, explanation_document
    from hyperoffload_core.explain.questions import parse_question
    from hyperoffload_core.schedule import Schedule
    from profiles.alive import GROUPS
    from profiles.filtering import parse_query

    for question in what_if or ():
        parse_question(question)
    for query in find or ():
        parse_query(query)
    group = next((g for g in GROUPS if g == by), None)
    if group is None:
        raise OptionError(f"--by {by}: write one of {', '.join(GROUPS)}")
    source = explained_source(schedule, database)
    planned = source if isinstance(source, Schedule) else source.schedule
    kept = named_storages(planned, storage)[:top] if storage is not None else ()
    found = explained_step(source, step, kept)
    moves = _moves(found, transfer) if transfer is not None else []
    answers = [ask(source, step, question) for question in what_if or ()]
    searched = [(query, found_in(source, step, query)) for query in find or ()]
    moment = moment_of(source, step, at) if at is not None else None
    chosen = selection_in(source, step, between) if between is not None else None
    near = _surroundings(source, step, around, hops, captured) if around is not None else None
    asked = (storage, transfer, at, between, around)
    parts = stalls or layers or bool(answers) or bool(searched) or any(given is not None for given in asked)
    every_layer = _layers(source, step) if layers else None
    if json:
        document = _document(found, kept, moves, stalls, answers) if parts else explanation_document(found)
        nearby = {"around": around_document(near)} if near is not None else {}
        nearby |= {"layers": layers_document(every_layer)} if every_layer is not None else {}
        print_json(document | step_document(searched, moment, chosen, group, top) | nearby)
        return
    console.print(_headline(found), markup=False)
    if (stalls or not parts) and (counted := blocking_words(found)):
        console.print(counted, markup=False, style="dim")
    if not parts:
        _print_summary(found, top)
    if stalls:
        _print_stalls(found, found.lost.stalls[:top])
    for decision in (d for d in found.storages if d.storage in kept):
        _print_storage(found, decision)
    for move in moves:
        _print_move(found, move)
    for answer in answers:
        _print_answer(answer)
    for query, hits in searched:
        print_found(query, hits, top)
    if moment is not None:
        print_moment(moment, group, top)
    if chosen is not None:
        print_selection(chosen)
    if near is not None:
        print_around(near)
    if every_layer is not None:
        print_layers(every_layer)


def _surroundings(source: Schedule | Profile, step: int | None, name: str, hops: int, captured: bool) -> Surroundings:
    from app.surroundings import surroundings

    return surroundings(source, step, name, hops, "captured" if captured else "scheduled")


def _layers(source: Schedule | Profile, step: int | None) -> Layers:
    from app.surroundings import layers

    return layers(source, step)


def _headline(e: Explanation) -> str:
    return (
        f"{e.schedule.graph.name} on {e.schedule.hardware.title}, {e.schedule.strategy} ({e.kind}): step "
        f"{time(e.step_ns)}, compute {time(e.compute_ns)}, lost to transfers {time(e.lost.total_ns)}"
    )


def _moves(e: Explanation, transfer: int) -> list[MoveVerdict]:
    found = [m for m in e.moves if transfer in m.parts]
    if not found:
        ids = [t.id for t in e.schedule.transfers]
        known = f"its transfers are {min(ids)} to {max(ids)}" if ids else "it moves nothing"
        raise OptionError(f"--transfer {transfer}: this schedule has no such transfer; {known}")
    return found


def _document(
    e: Explanation, kept: Sequence[int], moves: Sequence[MoveVerdict], stalls: bool, answers: Sequence[Answer]
) -> dict[str, Any]:
    """Only what was asked for."""
    from hyperoffload_core.explain.explanation import (
        answer_document,
        head_document,
        move_document,
        stall_document,
        storage_document,
    )

    document = head_document(e)
    if stalls:
        document["stalls"] = [stall_document(e, s) for s in e.lost.stalls]
    if kept:
        document["storages"] = [storage_document(e, d) for d in e.storages if d.storage in kept]
    if moves:
        document["transfers"] = [move_document(e, m, remedies=True) for m in moves]
    if answers:
        document["what_if"] = [answer_document(a) for a in answers]
    return document


def _print_summary(e: Explanation, top: int) -> None:
    if e.lost.by_cause:
        causes = ", ".join(f"{cause} {time(ns)}" for cause, ns in e.lost.by_cause.items())
        console.print(f"lost by cause: {causes}", markup=False)
        console.print()
        _print_stalls(e, e.lost.stalls[: min(top, 5)])
    costly = sorted(e.moves, key=lambda m: (-m.blocking_ns, -m.exposed_ns, m.start_ns))[:top]
    if costly:
        _print_moves(e, costly, f"the {len(costly)} costliest of {len(e.moves)} moves")
        console.print()
    _print_reasons(e)


def _print_reasons(e: Explanation) -> None:
    storages = e.schedule.graph.storages
    groups: dict[tuple[str, str], list[int]] = {}
    for d in e.storages:
        groups.setdefault(("stays" if d.stays else "leaves", d.reason), []).append(storages[d.storage].bytes)
    rows = [
        [decision, reason, f"{len(sizes):,}", size(sum(sizes))]
        for (decision, reason), sizes in sorted(groups.items(), key=lambda g: -sum(g[1]))
    ]
    print_table([("storages", "left"), ("because", "left"), ("count", "right"), ("bytes", "right")], rows)


_MOVE_COLUMNS = (
    ("transfer", "right"),
    ("kind", "left"),
    ("bytes", "right"),
    ("hidden", "right"),
    ("exposed", "right"),
    ("blocking", "right"),
    ("slack", "right"),
    ("cause", "left"),
    ("what would help", "left"),
    ("gain", "right"),
    ("storage", "left"),
)


def _print_moves(e: Explanation, moves: Sequence[MoveVerdict], title: str = "") -> None:
    rows = [
        [
            str(m.id) if len(m.parts) == 1 else f"{m.id} (+{len(m.parts) - 1} parts)",
            m.kind,
            size(m.bytes),
            time(m.hidden_ns),
            time(m.exposed_ns),
            time(m.blocking_ns),
            time(m.slack_ns),
            m.cause,
            m.remedy.kind,
            time(m.remedy.gain_ns),
            e.schedule.graph.storages[m.storage].name,
        ]
        for m in moves
    ]
    print_table(_MOVE_COLUMNS, rows, title)


def _print_stalls(e: Explanation, stalls: Sequence[Stall]) -> None:
    if not e.lost.stalls:
        console.print("no op waits for a transfer", style="dim")
    for rank, stall in enumerate(stalls, 1):
        console.print(f"{rank}. {time(stall.lost_ns)} ({stall.cause}): {stall.text}", markup=False)
        _print_remedies(stall.remedies)
    rest = len(e.lost.stalls) - len(stalls)
    if rest:
        console.print(f"and {rest} more", style="dim")
    console.print()


def _print_remedies(remedies: Sequence[Remedy]) -> None:
    for r in remedies:
        ask = f'  --what-if "{r.what_if}"' if r.what_if else ""
        console.print(f"   {time(r.gain_ns)} shorter: {r.text}{ask}", markup=False, style="dim")


def _print_storage(e: Explanation, decision: StorageDecision) -> None:
    console.print(decision.text, markup=False)
    moves = [m for m in e.moves if m.storage == decision.storage]
    if moves:
        _print_moves(e, moves)
    console.print()


def _print_move(e: Explanation, move: MoveVerdict) -> None:
    from hyperoffload_core.explain.explanation import remedies_of_move

    console.print(move.text, markup=False)
    _print_moves(e, [move])
    _print_remedies(remedies_of_move(e, move))
    console.print()


def _print_answer(answer: Answer) -> None:
    console.print(f"what if {answer.question}: {answer.text}", markup=False)
    if answer.after is None:
        return
    columns = [("", "left"), ("as it is", "right")]
    sides = [answer.before]
    if answer.unchanged is not None:
        columns.append(("recompiled without the change", "right"))
        sides.append(answer.unchanged)
    columns.append(("with the change", "right"))
    sides.append(answer.after)
    print_table(
        columns,
        [
            ["step", *(time(s.step_ns) for s in sides)],
            ["live peak", *(size(s.peak_bytes) for s in sides)],
            ["device memory", *(size(s.reserved_bytes) for s in sides)],
            ["exposed", *(time(s.exposed_ns) for s in sides)],
            ["blocking", *(time(s.blocking_ns) for s in sides)],
            ["moved out", *(size(s.bytes_out) for s in sides)],
            ["moved in", *(size(s.bytes_in) for s in sides)],
        ],
    )
    console.print()
