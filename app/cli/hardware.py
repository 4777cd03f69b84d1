"""`hyperoffload hardware`"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.display import console, print_json, print_table, size
from app.cli.options import Json
from hyperoffload_core.hardware import Hardware, hardware_names, load_hardware
from hyperoffload_core.sizes import format_ns, format_rate


def hardware(
    name: Annotated[str | None, typer.Argument(help="Show this one with the source of every number.")] = None,
    json: Json = False,
) -> None:
    """List the hardware descriptions, or show one with the source of every number.

    A file of your own in the same form (`.toml`) can be given wherever a hardware is named. Sources say whether a
    number is *primary* (the vendor's own code or documentation), *secondary*, *unverified*, or our planning value
    (*ours*).
    """
    if name is not None:
        _show(load_hardware(name), json)
        return
    all_known = [load_hardware(known) for known in hardware_names()]
    if json:
        print_json([_document(one) for one in all_known])
        return
    columns = [("name", "left"), ("what", "left"), ("memory", "right"), ("link out", "right"), ("link in", "right")]
    columns += [("latency", "right"), ("duplex", "left"), ("compute", "right"), ("memory rate", "right")]
    print_table(
        columns,
        [
            [
                one.name,
                one.title,
                size(one.device_bytes),
                format_rate(one.link_out.bytes_per_s),
                format_rate(one.link_in.bytes_per_s),
                format_ns(one.link_in.latency_ns),
                one.duplex,
                f"{one.compute.flops_per_s / 1e12:.0f} TFLOPS" if one.compute else "measured",
                format_rate(one.compute.memory_bytes_per_s) if one.compute else "measured",
            ]
            for one in all_known
        ],
    )


def _show(one: Hardware, json: bool) -> None:
    document = _document(one)
    if json:
        print_json(document)
        return
    console.print(one.title, style="bold", markup=False)
    rows = [["memory", size(one.device_bytes)], ["link.out", format_rate(one.link_out.bytes_per_s)]]
    rows += [["link.in", format_rate(one.link_in.bytes_per_s)], ["link.latency_ns", str(one.link_in.latency_ns)]]
    rows += [["link.duplex", one.duplex]]
    if one.compute is not None:
        rows += [
            ["compute.flops_per_s", f"{one.compute.flops_per_s / 1e12:.1f} TFLOPS, BF16"],
            ["compute.memory_bandwidth", format_rate(one.compute.memory_bytes_per_s)],
            ["compute.flops_efficiency", str(one.compute.flops_efficiency)],
            ["compute.memory_efficiency", str(one.compute.memory_efficiency)],
            ["compute.op_overhead_ns", str(one.compute.op_overhead_ns)],
        ]
    print_table(
        [("value", "left"), ("", "right"), ("source", "left")],
        [[*row, one.sources.get(row[0], "no source given")] for row in rows],
    )


def _document(one: Hardware) -> dict[str, Any]:
    compute = one.compute
    return {
        "name": one.name,
        "title": one.title,
        "device_bytes": one.device_bytes,
        "links": {
            "out": {"bytes_per_s": one.link_out.bytes_per_s, "latency_ns": one.link_out.latency_ns},
            "in": {"bytes_per_s": one.link_in.bytes_per_s, "latency_ns": one.link_in.latency_ns},
            "duplex": one.duplex,
        },
        "compute": None if compute is None else {name: getattr(compute, name) for name in compute.__dataclass_fields__},
        "sources": one.sources,
    }
