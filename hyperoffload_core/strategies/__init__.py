"""Strategies: algorithms that turn graph + hardware + policy into a plan. One module each, one registry."""

from __future__ import annotations

from collections.abc import Mapping

from hyperoffload_core.errors import near_matches
from hyperoffload_core.strategies import (
    deep_optimizer_states,
    deepcompile,
    functorch,
    hyper_parallel,
    hyperoffload,
    lookahead,
    mindspore_distance,
    mindspore_peak,
    mindspore_window,
    none,
    optimal,
    paged_kv,
    reactive,
    recompute,
    superoffload,
    zero_infinity,
    zero_offload,
)
from hyperoffload_core.strategies.base import (
    Cancelled,
    Option,
    OptionValue,
    Request,
    Strategy,
    StrategyError,
)

_MODULES = (
    none,
    reactive,
    lookahead,
    mindspore_distance,
    mindspore_peak,
    mindspore_window,
    hyper_parallel,
    functorch,
    deepcompile,
    zero_offload,
    zero_infinity,
    superoffload,
    deep_optimizer_states,
    paged_kv,
    recompute,
    hyperoffload,
    optimal,
)
LARGEST = 2**53
_TAKES = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}

STRATEGIES: dict[str, Strategy] = {m.STRATEGY.name: m.STRATEGY for m in _MODULES}

__all__ = [
    "STRATEGIES",
    "Cancelled",
    "Option",
    "Request",
    "Strategy",
    "StrategyError",
    "find_strategy",
    "resolve_options",
]


def find_strategy(name: str) -> Strategy:
    """Raises `StrategyError` listing what there is."""
    if name in STRATEGIES:
        return STRATEGIES[name]
    near = near_matches(name, STRATEGIES)
    hint = f"did you mean {near[0]}? " if near else ""
    raise StrategyError(f"there is no strategy {name!r}; {hint}the strategies are {', '.join(STRATEGIES)}")


def resolve_options(strategy: Strategy, given: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """Every option of the strategy with its value. Raises `StrategyError` naming the option and what it takes."""
    known = {o.name: o for o in strategy.options}
    for name, value in given.items():
        option = known.get(name)
        if option is None:
            has = f"its options are {', '.join(known)}" if known else "it has no options"
            raise StrategyError(f"strategy {strategy.name!r} has no option {name!r}; {has}")
        wanted = type(option.default)
        fits = isinstance(value, wanted) and isinstance(value, bool) == isinstance(option.default, bool)
        if not fits and not (wanted is float and isinstance(value, int) and not isinstance(value, bool)):
            raise StrategyError(f"option {name!r} of {strategy.name!r} is {value!r}; it takes {_TAKES[wanted]}")
        # Strategies multiply options and give them to NumPy: neither nan nor what a double or an int64 cannot hold.
        if isinstance(value, int | float) and not abs(value) <= LARGEST:
            raise StrategyError(f"option {name!r} of {strategy.name!r} is {value}; numbers go up to 2^53")
        if option.choices and value not in option.choices:
            raise StrategyError(
                f"option {name!r} of {strategy.name!r} is {value!r}; choose one of {', '.join(option.choices)}"
            )
        if option.minimum is not None and not isinstance(value, str) and value < option.minimum:
            raise StrategyError(f"option {name!r} of {strategy.name!r} is {value}; it is at least {option.minimum:g}")
        if option.maximum is not None and not isinstance(value, str) and value > option.maximum:
            raise StrategyError(f"option {name!r} of {strategy.name!r} is {value}; it is at most {option.maximum:g}")
    return {o.name: given.get(o.name, o.default) for o in strategy.options}
