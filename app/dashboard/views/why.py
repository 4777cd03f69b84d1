"""Why something of a step is as it is, what would help, and what can be asked about it."""

from __future__ import annotations

from dataclasses import dataclass

from app.dashboard.views.clipping import sentence
from app.dashboard.views.stalls import RemedyRow, remedy_row
from hyperoffload_core.explain.explanation import Explanation, remedies_of_move
from hyperoffload_core.explain.moves import MoveVerdict, help_words
from hyperoffload_core.explain.remedies import Remedy, remedies_of
from hyperoffload_core.sizes import format_ns


@dataclass(frozen=True, slots=True)
class Why:
    """``questions`` are (button, what-if question); ``storage`` is the name a rule about it would have, None where a
    rule makes no sense."""

    text: str
    remedies: tuple[RemedyRow, ...]
    questions: tuple[tuple[str, str], ...]
    storage: str | None


def why(found: Explanation, kind: str, identity: int) -> Why:
    """Of an op, transfer or storage that this step has."""
    if kind == "op":
        return _of_op(found, identity)
    if kind == "transfer":
        return _of_transfer(found, identity)
    return _of_storage(found, identity)


def _of_op(found: Explanation, op: int) -> Why:
    stall = next((s for s in found.lost.stalls if s.op == op), None)
    if stall is None:
        return Why("No transfer delays this op.", (), (("Double the link", "link x2"),), None)
    move = next(m for m in found.moves if stall.transfer in m.parts)
    remedies = remedies_of(found.replays, stall.transfer)
    return _why(sentence(stall.text), remedies, [*_about_move(found, move), ("Double the link", "link x2")], None)


def _of_transfer(found: Explanation, transfer: int) -> Why:
    move = next((m for m in found.moves if transfer in m.parts), None)
    if move is None:
        return Why("This transfer did not run in this step.", (), (), None)
    way = "out" if move.kind == "store" else "in"
    questions = [*_about_move(found, move), (f"Double the link {way}", f"link {way} x2")]
    name = found.schedule.graph.storages[move.storage].name
    text = move.text.removesuffix(f"; {help_words(move.remedy)}")
    return _why(sentence(text), remedies_of_move(found, move), questions, name)


def _of_storage(found: Explanation, storage: int) -> Why:
    graph = found.schedule.graph
    of = graph.storages[storage].recompute_of
    decision = next(d for d in found.storages if d.storage == (storage if of is None else of))
    name = graph.storages[decision.storage].name
    moves = [m for m in found.moves if m.storage == storage]
    worst = max(moves, key=lambda m: m.blocking_ns, default=None)
    remedies = remedies_of_move(found, worst) if worst is not None else []
    questions = [] if decision.stays else [("Keep it on the device", f"keep {name}")]
    if worst is not None:
        questions += [q for q in _about_move(found, worst) if not q[1].startswith("keep ")]
        questions.append(("Double the link", "link x2"))
    return _why(sentence(decision.text), remedies, questions, name)


def _about_move(found: Explanation, move: MoveVerdict) -> list[tuple[str, str]]:
    """To start it earlier by what it takes, and to keep its storage."""
    took = move.end_ns - move.start_ns
    name = found.schedule.graph.storages[move.storage].name
    asked = [("Keep it on the device", f"keep {name}")]
    if min(took, move.start_ns) > 0:
        early = min(took, move.start_ns)
        asked.insert(
            0,
            (
                f"Start this {move.kind.title()} {format_ns(early)} earlier",
                f"{move.kind} {move.id} earlier by {early}ns",
            ),
        )
    return asked


def _why(text: str, remedies: list[Remedy], questions: list[tuple[str, str]], storage: str | None) -> Why:
    """A question that is a remedy already is asked there."""
    tried = {r.what_if for r in remedies}
    rest = tuple(q for q in questions if q[1] not in tried)
    return Why(text, tuple(remedy_row(r) for r in remedies), rest, storage)
