"""Device and link descriptions: TOML files in this folder, one per hardware, every number with its source."""

from hyperoffload_core.hardware.description import (
    Compute,
    Hardware,
    HardwareError,
    Link,
    described,
    hardware_document,
    hardware_names,
    load_hardware,
    overridden,
    transfer_ns,
)

__all__ = [
    "Compute",
    "Hardware",
    "HardwareError",
    "Link",
    "described",
    "hardware_document",
    "hardware_names",
    "load_hardware",
    "overridden",
    "transfer_ns",
]
