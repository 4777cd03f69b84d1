"""What a device and its links can do, read from TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from hyperoffload_core.errors import UserError, near_matches
from hyperoffload_core.sizes import UNLIMITED_BYTES_PER_S, parse_bytes, parse_rate

NANOSECONDS = 1_000_000_000
Duplex = Literal["full", "half"]


class HardwareError(UserError):
    """A hardware description that cannot be used; the message says what is wrong and what would be right."""


@dataclass(frozen=True)
class Link:
    """One transfer direction: rate (> 0) and fixed cost of each transfer."""

    bytes_per_s: int
    latency_ns: int


@dataclass(frozen=True)
class Compute:
    """Roofline numbers of the compute stream; efficiencies are fractions of the peak that kernels reach."""

    flops_per_s: int
    memory_bytes_per_s: int
    flops_efficiency: float
    memory_efficiency: float
    op_overhead_ns: int


@dataclass(frozen=True)
class Hardware:
    """A device, its two links and where each number comes from (``sources``: dotted key -> text).

    ``compute`` is None for a machine whose op durations are always measured, never modelled.
    """

    name: str
    title: str
    device_bytes: int
    link_out: Link
    link_in: Link
    duplex: Duplex
    compute: Compute | None = None
    sources: dict[str, str] = field(default_factory=dict, compare=False)

    def with_link_bandwidth(self, bytes_per_s: int) -> Hardware:
        """The same hardware with both directions at the given rate."""
        return replace(
            self,
            link_out=replace(self.link_out, bytes_per_s=bytes_per_s),
            link_in=replace(self.link_in, bytes_per_s=bytes_per_s),
        )


def transfer_ns(size_bytes: int, link: Link) -> int:
    """Time one transfer occupies its link: latency plus bytes over bandwidth, rounded up (schedule-file rule)."""
    return link.latency_ns + -(-size_bytes * NANOSECONDS // link.bytes_per_s)


def hardware_names() -> tuple[str, ...]:
    """Names of the descriptions that come with the program, sorted."""
    folder = resources.files("hyperoffload_core.hardware")
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


def load_hardware(name_or_path: str, overrides: Mapping[str, Any] | None = None) -> Hardware:
    """A description by name (`hardware_names`) or from a TOML file of one's own (a path that ends in ``.toml``).

    ``overrides`` replaces single values by dotted key, in the units of the file:
    ``{"memory": "32GiB", "link.in": "100GB/s", "compute.flops_efficiency": 0.5}``. Raises `HardwareError`.
    """
    if name_or_path.endswith(".toml"):
        text, where = _read(Path(name_or_path)), name_or_path
    elif name_or_path in hardware_names():
        file = resources.files("hyperoffload_core.hardware").joinpath(f"{name_or_path}.toml")
        text, where = file.read_text(encoding="utf-8"), name_or_path
    else:
        near = near_matches(name_or_path, hardware_names(), 2)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise HardwareError(
            f"no hardware is called {name_or_path!r}; {meant}the known ones are {', '.join(hardware_names())},"
            " and a path of a .toml file of your own does as well"
        )
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise HardwareError(f"hardware {where}: not a TOML file ({error})") from error
    for key, value in (overrides or {}).items():
        _override(document, key, value, where)
    return _from_document(document, where)


def described(hardware: Hardware) -> Hardware:
    """A hardware as a schedule recorded it, with the compute numbers and sources of the description it is from, where
    that is known and still says the same of memory and links."""
    if hardware.name not in hardware_names():
        return hardware
    known = load_hardware(hardware.name)
    same = replace(known, title=hardware.title, compute=hardware.compute) == hardware
    return known if same else hardware


def overridden(hardware: Hardware, overrides: Mapping[str, Any]) -> Hardware:
    """A hardware with single values replaced by dotted key, as `load_hardware` does. Raises `HardwareError`."""
    document = hardware_document(hardware)
    for key, value in overrides.items():
        if key.startswith("compute.") and hardware.compute is None:
            raise HardwareError(f"hardware {hardware.name}: it has no [compute] numbers that {key} could replace")
        _override(document, key, value, hardware.name)
    return _from_document(document, hardware.name)


def hardware_document(hardware: Hardware) -> dict[str, Any]:
    """The description as plain values, in the form of the TOML files; sizes in bytes, rates in bytes per second."""
    document: dict[str, Any] = {
        "name": hardware.name,
        "title": hardware.title,
        "memory": str(hardware.device_bytes),
        "link": {
            "out": f"{hardware.link_out.bytes_per_s}B/s",
            "in": f"{hardware.link_in.bytes_per_s}B/s",
            "latency_ns": hardware.link_in.latency_ns,
            "duplex": hardware.duplex,
        },
        "sources": dict(hardware.sources),
    }
    if (compute := hardware.compute) is not None:
        document["compute"] = {
            "flops_per_s": compute.flops_per_s,
            "memory_bandwidth": f"{compute.memory_bytes_per_s}B/s",
            "flops_efficiency": compute.flops_efficiency,
            "memory_efficiency": compute.memory_efficiency,
            "op_overhead_ns": compute.op_overhead_ns,
        }
    return document


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HardwareError(f"hardware {path}: the file cannot be read ({error})") from error


_KEYS: dict[str, tuple[str, ...]] = {
    "": ("name", "title", "memory", "link", "compute", "sources"),
    "link": ("out", "in", "latency_ns", "duplex"),
    "compute": ("flops_per_s", "memory_bandwidth", "flops_efficiency", "memory_efficiency", "op_overhead_ns"),
}


def _override(document: dict[str, Any], key: str, value: Any, where: str) -> None:
    table, _, field_name = key.rpartition(".")
    if field_name not in _KEYS.get(table, ()) or field_name in _KEYS:
        known = [f"{t}.{k}".lstrip(".") for t, keys in _KEYS.items() for k in keys if k not in (*_KEYS, "sources")]
        raise HardwareError(f"hardware {where}: no value is called {key!r}; the values are {', '.join(known)}")
    target = document.setdefault(table, {}) if table else document
    target[field_name] = value
    document.setdefault("sources", {})[key] = "given by the user"


def _from_document(document: dict[str, Any], where: str) -> Hardware:
    fields = _Fields(document, where)
    for table in _KEYS:
        fields.refuse_unknown(table)
    bytes_out, bytes_in = fields.rate("link.out"), fields.rate("link.in")
    latency_ns = fields.integer("link.latency_ns", 0)
    duplex = fields.get("link.duplex")
    if duplex not in ("full", "half"):
        raise HardwareError(f'hardware {where}: link.duplex is {duplex!r}; write "full" or "half"')
    compute = None
    if "compute" in document:
        compute = Compute(
            flops_per_s=fields.integer("compute.flops_per_s", 1),
            memory_bytes_per_s=fields.rate("compute.memory_bandwidth"),
            flops_efficiency=fields.fraction("compute.flops_efficiency"),
            memory_efficiency=fields.fraction("compute.memory_efficiency"),
            op_overhead_ns=fields.integer("compute.op_overhead_ns", 0),
        )
    return Hardware(
        name=str(fields.get("name")),
        title=str(fields.get("title")),
        device_bytes=fields.size("memory"),
        link_out=Link(bytes_out, latency_ns),
        link_in=Link(bytes_in, latency_ns),
        duplex=duplex,
        compute=compute,
        sources={str(k): str(v) for k, v in document.get("sources", {}).items()},
    )


@dataclass(frozen=True)
class _Fields:
    """Reads dotted keys of one document and says in one sentence which of them is wrong."""

    document: dict[str, Any]
    where: str

    def refuse_unknown(self, table: str) -> None:
        content = self.document.get(table, {}) if table else self.document
        if not isinstance(content, dict):
            raise HardwareError(f"hardware {self.where}: {table} must be a table")
        for key in content:
            if key not in _KEYS[table]:
                raise HardwareError(
                    f"hardware {self.where}: unknown key {f'{table}.{key}'.lstrip('.')!r};"
                    f" known here: {', '.join(_KEYS[table])}"
                )

    def get(self, key: str) -> Any:
        value: Any = self.document
        for part in key.split("."):
            if not isinstance(value, dict) or part not in value:
                raise HardwareError(f"hardware {self.where}: {key} is missing")
            value = value[part]
        return value

    def size(self, key: str) -> int:
        value = self.get(key)
        try:
            return parse_bytes(str(value))
        except UserError as error:
            raise HardwareError(f"hardware {self.where}: {key}: {error}") from error

    def rate(self, key: str) -> int:
        value = self.get(key)
        try:
            rate = parse_rate(str(value))
        except UserError as error:
            raise HardwareError(f"hardware {self.where}: {key}: {error}") from error
        return UNLIMITED_BYTES_PER_S if rate is None else rate

    def integer(self, key: str, least: int) -> int:
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value) or value < least:
            raise HardwareError(f"hardware {self.where}: {key} is {value!r}; write a whole number of at least {least}")
        return int(value)

    def fraction(self, key: str) -> float:
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
            raise HardwareError(f"hardware {self.where}: {key} is {value!r}; write a number above 0 and up to 1")
        return float(value)
