"""Which storages a rule means."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from hyperoffload_core.errors import near_matches
from hyperoffload_core.ir import Graph, Op, Storage
from hyperoffload_core.policy.schema import Action, Policy, PolicyError, Rule
from hyperoffload_core.sizes import format_bytes, parse_bytes, parse_ns


def match_rules(graph: Graph, policy: Policy) -> tuple[Action, ...]:
    """What the rules say of each storage, indexed by storage id. The first rule that matches decides; none: ``auto``.

    Raises `PolicyError` for a rule that matches no storage of the graph; the message lists near matches.
    """
    actions: list[Action | None] = [None] * len(graph.storages)
    for position, rule in enumerate(policy.rules, start=1):
        matched = rule_matches(graph, rule)
        if not matched:
            raise PolicyError(f"rule {position} ({rule.text}) matches no storage; {_advice(graph, rule)}")
        for storage in matched:
            if actions[storage] is None:
                actions[storage] = rule.action
    return tuple(action or "auto" for action in actions)


def prefetches_earlier(graph: Graph, policy: Policy) -> dict[int, int]:
    """How much earlier, in ns, the Prefetches of storages are to start, by storage id, as the first rule that matches
    each says."""
    result: dict[int, int] = {}
    if all(rule.prefetch_earlier is None for rule in policy.rules):
        return result
    decided: set[int] = set()
    for rule in policy.rules:
        matched = set(rule_matches(graph, rule)) - decided
        decided |= matched
        if rule.prefetch_earlier is not None:
            result |= dict.fromkeys(sorted(matched), parse_ns(rule.prefetch_earlier))
    return result


def rule_matches(graph: Graph, rule: Rule) -> tuple[int, ...]:
    """Ids of the storages for which every condition of the rule holds, whatever other rules say.

    A storage's scope and phase are those of the first op that accesses it. Patterns are shell-style and case-sensitive
    (``*`` also crosses ``/``) and must match the whole scope or name; a scope is tried with and without a final slash,
    so ``*/3-Block/*`` means everything in that block.
    """
    holds = _conditions(rule)
    return tuple(
        storage.id for storage in graph.storages if all(test(storage, first_op(graph, storage.id)) for _, test in holds)
    )


def rule_size(graph: Graph, rule: Rule) -> tuple[int, int]:
    """How many storages a rule matches, and their bytes together, whatever other rules say."""
    matched = rule_matches(graph, rule)
    return len(matched), sum(graph.storages[s].bytes for s in matched)


def first_op(graph: Graph, storage: int) -> Op | None:
    """The first op that accesses a storage; None for one that no op touches."""
    accesses = graph.accesses[storage]
    return graph.ops[accesses[0].op] if accesses else None


_Test = Callable[[Storage, Op | None], bool]


def _conditions(rule: Rule) -> list[tuple[str, _Test]]:
    """Each condition given, as (field, test)."""
    tests: list[tuple[str, _Test]] = []
    if (tensor_class := rule.tensor_class) is not None:
        tests.append(("class", lambda s, _: s.tensor_class == tensor_class))
    if (scope := rule.scope) is not None:
        tests.append(("scope", lambda _, op: op is not None and scope_matches(op.scope, scope)))
    if (name := rule.name) is not None:
        tests.append(("name", lambda s, _: fnmatchcase(s.name, name)))
    if rule.min_size is not None:
        least = parse_bytes(rule.min_size)
        tests.append(("min_size", lambda s, _: s.bytes >= least))
    if rule.max_size is not None:
        most = parse_bytes(rule.max_size)
        tests.append(("max_size", lambda s, _: s.bytes <= most))
    if (phase := rule.phase) is not None:
        tests.append(("phase", lambda _, op: op is not None and op.phase == phase))
    return tests


def scope_matches(scope: str, pattern: str) -> bool:
    return fnmatchcase(scope, pattern) or fnmatchcase(scope + "/", pattern)


def _advice(graph: Graph, rule: Rule) -> str:
    """Why a rule matched nothing: the first condition that fails by itself, with near matches; or their combination."""
    if not graph.storages:
        return "this graph has no storages"
    for field, test in _conditions(rule):
        if any(test(storage, first_op(graph, storage.id)) for storage in graph.storages):
            continue
        if field == "scope":
            return _listing("no scope is like that", rule.scope or "", _scopes(graph))
        if field == "name":
            return _listing("no storage is called that", rule.name or "", {s.name for s in graph.storages})
        if field == "class":
            return f"this graph has the classes {', '.join(sorted({s.tensor_class for s in graph.storages}))}"
        if field == "phase":
            return f"this graph has the phases {', '.join(sorted({op.phase for op in graph.ops}))}"
        sizes = [s.bytes for s in graph.storages]
        return f"its storages have {format_bytes(min(sizes))} to {format_bytes(max(sizes))}"
    return "each condition alone matches some, but no storage meets all of them"


def _listing(reason: str, pattern: str, known: Iterable[str]) -> str:
    """Near matches of a pattern: those that end like its longest literal part, then those that look like it."""
    names = sorted(known)
    if not names:
        return f"{reason}: no op of this graph has one"
    literal = max(pattern.replace("?", "*").split("*"), key=len).strip("/")
    last_parts: dict[str, str] = {}
    for name in names:
        last_parts.setdefault(name.rsplit("/", 1)[-1], name)
    near = [last_parts[n] for n in near_matches(literal.rsplit("/", 1)[-1], last_parts)]
    near += [n for n in near_matches(pattern.strip("*/"), names) if n not in near]
    if not near:
        near = names[:5]
        return f"{reason}; there are for instance {', '.join(near)}"
    return f"{reason}; near matches: {', '.join(near[:5])}"


def _scopes(graph: Graph) -> set[str]:
    """Every scope an op has, and every scope that encloses one."""
    scopes: set[str] = set()
    for scope in {op.scope for op in graph.ops}:
        parts = scope.split("/")
        scopes.update("/".join(parts[: n + 1]) for n in range(len(parts)))
    return scopes - {""}
