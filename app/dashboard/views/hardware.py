"""A hardware as fields a person can change: every number with its unit and source, and what a changed text means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import Hardware, hardware_document, overridden
from hyperoffload_core.sizes import format_bytes, format_rate, parse_rate

TERA = 10**12


class NumberError(UserError):
    """A hardware number that does not exist, or what is given for one is no number."""


@dataclass(frozen=True, slots=True)
class HardwareField:
    """One number: ``text`` as shown and typed, ``choices`` where only these are possible."""

    key: str
    title: str
    text: str
    source: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Given:
    """What the fields say: values that differ from the description by dotted key, and what is wrong by key."""

    overrides: dict[str, Any]
    errors: dict[str, str]


_TITLES = {
    "memory": "Device memory",
    "link.out": "Link out of the device",
    "link.in": "Link into the device",
    "link.latency_ns": "Latency of a transfer, ns",
    "link.duplex": "Duplex",
    "compute.flops_per_s": "Compute rate, TFLOPS",
    "compute.memory_bandwidth": "Memory bandwidth",
    "compute.flops_efficiency": "Part of the compute rate reached",
    "compute.memory_efficiency": "Part of the memory bandwidth reached",
    "compute.op_overhead_ns": "Fixed cost of an op, ns",
}


def hardware_fields(hardware: Hardware, *, compute: bool = True) -> list[HardwareField]:
    """The numbers of a hardware; without those of its compute stream where op durations do not come from them."""
    document = hardware_document(hardware)
    shown = []
    for key, title in _TITLES.items():
        table, _, name = key.rpartition(".")
        values = document.get(table, {}) if table else document
        if name not in values or (table == "compute" and not compute):
            continue
        choices = ("full", "half") if key == "link.duplex" else ()
        source = hardware.sources.get(key, "no source given")
        shown.append(HardwareField(key, title, _text(hardware, key, values[name]), source, choices))
    return shown


def given_hardware(hardware: Hardware, texts: Mapping[str, Any]) -> Given:
    """What typed texts, by key, change. A text as it was shown, or an empty one, means the description's own number."""
    shown = {field.key: field.text for field in hardware_fields(hardware)}
    overrides: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for key, typed in texts.items():
        text = str(typed if typed is not None else "").strip()
        if not text or key not in shown or text == shown[key]:
            continue
        try:
            value = number_given(key, text)
            overridden(hardware, {key: value})
        except UserError as error:
            errors[key] = _sentence(str(error), key)
        else:
            overrides[key] = value
    return Given(overrides, errors)


def number_given(key: str, text: str) -> Any:
    """The value by which a typed text, in the unit of its field, overrides a number (`overridden`).

    Raises `NumberError` for a key that is none, and for a text that is no number.
    """
    if key not in _TITLES:
        raise NumberError(f"no hardware number is called {key!r}; they are {', '.join(_TITLES)}")
    try:
        return _READ.get(key, str)(text)
    except (ValueError, OverflowError) as error:
        raise NumberError(f"{key}: {text!r} is not a number") from error


def paced_link(hardware: Hardware, overrides: Mapping[str, Any], recorded: int | None) -> str:
    """The rate a run on this machine paces its link to: the changed one, else the recorded one to the byte.

    Raises `UserError` where the two directions differ: a run paces both alike.
    """
    if not {"link.out", "link.in"} & set(overrides):
        return "unlimited" if recorded is None else f"{recorded}B/s"
    shown = {field.key: field.text for field in hardware_fields(hardware)}
    rates = {parse_rate(str(overrides.get(key, shown[key]))) for key in ("link.out", "link.in")}
    if len(rates) > 1:
        raise UserError("a run on this machine paces both directions of the link alike; give them the same rate")
    return str(overrides.get("link.out", overrides.get("link.in")))


def _text(hardware: Hardware, key: str, value: Any) -> str:
    if key == "memory":
        return format_bytes(hardware.device_bytes)
    if key == "link.out":
        return format_rate(hardware.link_out.bytes_per_s)
    if key == "link.in":
        return format_rate(hardware.link_in.bytes_per_s)
    if key == "compute.flops_per_s":
        return f"{value / TERA:.6g}"
    if key == "compute.memory_bandwidth":
        assert hardware.compute is not None
        return format_rate(hardware.compute.memory_bytes_per_s)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _flops(text: str) -> int:
    return round(float(text.removesuffix("TFLOPS")) * TERA)


_READ: dict[str, Callable[[str], Any]] = {
    "link.latency_ns": int,
    "compute.flops_per_s": _flops,
    "compute.flops_efficiency": float,
    "compute.memory_efficiency": float,
    "compute.op_overhead_ns": int,
}


def _sentence(message: str, key: str) -> str:
    """The message without the hardware and the field it stands beside."""
    text = message.partition(f"{key}: ")[2] or message.partition(f"{key} is ")[2] or message
    return text[:1].upper() + text[1:]
