from pathlib import Path

import pytest

from hyperoffload_core.hardware import HardwareError, hardware_names, load_hardware

OWN = """
name = "mine"
title = "My device"
memory = "8GiB"
[link]
out = "10GB/s"
in = "unlimited"
latency_ns = 1000
duplex = "half"
"""


@pytest.mark.parametrize("name", hardware_names())
def test_every_number_of_a_description_has_a_source_with_its_status(name: str) -> None:
    hardware = load_hardware(name)
    assert hardware.name == name
    assert hardware.compute is not None
    numbers = {"memory", "link.out", "link.in", "link.latency_ns", "link.duplex"} | {
        f"compute.{key}"
        for key in ("flops_per_s", "memory_bandwidth", "flops_efficiency", "memory_efficiency", "op_overhead_ns")
    }
    assert set(hardware.sources) == numbers
    for source in hardware.sources.values():
        assert source.split(":")[0].split(",")[0] in ("primary", "secondary", "unverified", "ours")


def test_the_ascend_910c_pool_link_is_an_unverified_bound() -> None:
    hardware = load_hardware("ascend-910c")
    assert hardware.device_bytes == 64 << 30
    assert hardware.link_in.bytes_per_s == 137_200_000_000
    assert hardware.sources["link.in"].startswith("unverified, optimistic")


def test_an_unknown_name_lists_what_is_near_and_what_there_is() -> None:
    with pytest.raises(HardwareError) as error:
        load_hardware("ascend910c")
    assert "did you mean ascend-910c" in str(error.value)
    assert all(name in str(error.value) for name in hardware_names())


def test_an_override_replaces_one_value_and_its_source() -> None:
    hardware = load_hardware("h200", {"memory": "32GiB", "link.in": "100GB/s"})
    assert hardware.device_bytes == 32 << 30
    assert hardware.link_in.bytes_per_s == 100_000_000_000
    assert hardware.link_out == load_hardware("h200").link_out
    assert hardware.sources["link.in"] == "given by the user"


def test_an_unknown_override_lists_the_values() -> None:
    with pytest.raises(HardwareError, match=r"'link.speed'.*link.latency_ns"):
        load_hardware("h200", {"link.speed": "1GB/s"})


def test_a_file_of_ones_own_needs_no_compute_numbers(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN)
    hardware = load_hardware(str(file))
    assert hardware.compute is None
    assert hardware.duplex == "half"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('memory = "8GiB"', "", "memory is missing"),
        ('"8GiB"', '"8 gigs"', "memory: '8 gigs' is not a size"),
        ('out = "10GB/s"', 'out = "10GB"', "link.out: '10GB' is not a rate"),
        ('"half"', '"both"', 'link.duplex is \'both\'; write "full" or "half"'),
        ("1000", "1000.5", "link.latency_ns is 1000.5; write a whole number"),
        ("latency_ns", "latency", "unknown key 'link.latency'"),
        ("[link]", "[link", "not a TOML file"),
    ],
)
def test_a_fault_in_a_file_is_one_sentence_with_file_and_key(tmp_path: Path, old: str, new: str, says: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN.replace(old, new))
    with pytest.raises(HardwareError) as error:
        load_hardware(str(file))
    assert says in str(error.value)
    assert str(file) in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HardwareError, match=r"nowhere\.toml"):
        load_hardware(str(tmp_path / "nowhere.toml"))
