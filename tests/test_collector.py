"""The garbage collector is off while a schedule is made and afterwards as it was."""

from __future__ import annotations

import gc

import pytest

from hyperoffload_core.collector import collector_paused


def test_the_collector_is_back_even_after_an_error() -> None:
    @collector_paused()
    def failing() -> None:
        assert not gc.isenabled()
        raise ValueError

    with pytest.raises(ValueError):
        failing()
    assert gc.isenabled()


def test_whoever_switched_the_collector_off_finds_it_off() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
