"""The answer to a what-if question as one sentence and a small table."""

from __future__ import annotations

from dataclasses import dataclass

from app.dashboard.views.clipping import clipped, sentence
from hyperoffload_core.explain.questions import Keep, parse_question
from hyperoffload_core.explain.whatif import Answer, Numbers
from hyperoffload_core.sizes import format_bytes, format_ns


@dataclass(frozen=True)
class AnswerView:
    """``rows`` are (quantity, a text for each of ``columns``), empty for what is not possible. ``tone`` is good for a
    shorter step, bad for a longer one. ``keep`` is the storage that was asked to stay, None for other questions."""

    title: str
    text: str
    tone: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    keep: str | None


def answer_view(answer: Answer) -> AnswerView:
    asked = parse_question(answer.question)
    keep = asked.name if isinstance(asked, Keep) else None
    title = f"What if: {clipped(answer.question, 120)}"
    if answer.after is None:
        return AnswerView(title, sentence(answer.text), "warn", (), (), keep)
    columns, sides = ["As it is"], [answer.before]
    if answer.unchanged is not None:
        columns.append("Recompiled without it")
        sides.append(answer.unchanged)
    columns.append("With it")
    sides.append(answer.after)
    before = answer.unchanged or answer.before
    tone = (
        "good" if answer.after.step_ns < before.step_ns else "bad" if answer.after.step_ns > before.step_ns else "info"
    )
    return AnswerView(title, sentence(answer.text), tone, tuple(columns), tuple(_rows(sides)), keep)


def _rows(sides: list[Numbers]) -> list[tuple[str, tuple[str, ...]]]:
    return [
        ("Step (predicted)", tuple(format_ns(s.step_ns) for s in sides)),
        ("Live peak", tuple(format_bytes(s.peak_bytes) for s in sides)),
        ("Exposed", tuple(format_ns(s.exposed_ns) for s in sides)),
        ("Blocking", tuple(format_ns(s.blocking_ns) for s in sides)),
        ("Moved out", tuple(format_bytes(s.bytes_out) for s in sides)),
        ("Moved in", tuple(format_bytes(s.bytes_in) for s in sides)),
    ]
