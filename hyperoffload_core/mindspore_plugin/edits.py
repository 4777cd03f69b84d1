"""What is changed in a MindSpore graph, as data: new nodes and inputs set, on a graph whose nodes are known.

A graph's nodes are its calls (MindSpore's CNodes) in topological order, as MindIR lists them without its constants;
the compiler pass and a MindIR file see the same list. A `Ref` names what an input can be:

    n12      node 12 of the graph            x5       new node 5
    p:NAME   parameter or input of that name U        a monad constant
    i42      the integer 42 (int64)          b1, b0   true, false
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Ref = str
Target = Literal["cpu", "ascend"]
VERSION = 1
# One int64 of shape (1,): what says "this has happened" where nothing else is passed on.
TOKEN = "token"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a node must be: primitive, scope (without the ``-opN`` MindSpore numbers it with), and result, for example
    ``float32[2,32,64]`` or ``(float32[2],float32[2])``; "" where MindIR does not say. ``inputs`` are what it takes, ""
    for a constant."""

    primitive: str
    scope: str
    result: str
    inputs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class NewNode:
    """A call put into the graph.

    ``primitive`` is a name, or ``clone nK``: the primitive of that node with its attributes; an empty input of a clone
    stands for the input that node has there. ``result`` is `TOKEN`, ``like REF`` (the type and shape of that value) or
    ``U`` (a monad).
    """

    id: int
    primitive: str
    inputs: tuple[Ref, ...]
    result: str
    scope: str = ""


@dataclass(frozen=True, slots=True)
class SetInput:
    """Input ``position`` (from 0) of a node becomes ``ref``. The node after the last one is the graph's Return, whose
    input 0 is the graph's result."""

    node: int
    position: int
    ref: Ref


Edit = NewNode | SetInput


@dataclass(frozen=True)
class Plan:
    """Edits, in order, of the graph whose nodes are ``nodes``; an edit refers only to new nodes before it."""

    name: str
    target: Target
    nodes: tuple[Expected, ...]
    edits: tuple[Edit, ...]


def plan_text(plan: Plan) -> str:
    """The plan as the compiler pass reads it: one line each, fields separated by tabs."""
    lines = [("hyperoffload.plan", str(VERSION)), ("graph", plan.name, str(len(plan.nodes)))]
    lines += [("node", n.primitive, n.scope, n.result, *n.inputs) for n in plan.nodes]
    for edit in plan.edits:
        if isinstance(edit, NewNode):
            lines.append(("new", str(edit.id), edit.primitive, edit.result, edit.scope, *edit.inputs))
        else:
            lines.append(("set", str(edit.node), str(edit.position), edit.ref))
    lines.append(("end",))
    return "".join("\t".join(map(_field, line)) + "\n" for line in lines)


def _field(text: str) -> str:
    return text.replace("\t", "?").replace("\n", "?").replace("\r", "?")
