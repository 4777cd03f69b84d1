"""Colours: told apart by everyone, readable on light and dark."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import profiles
from app.dashboard import theme
from hyperoffload_core.ir import TENSOR_CLASSES
from profiles.colours import BLOCKING, COPY_IN, COPY_OUT, PHASE_COLOURS

STYLE = (Path(theme.__file__).parent / "assets" / "style.css").read_text()

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear(colour: str) -> np.ndarray:
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(a: str, b: str) -> float:
    low, high = sorted(float(np.array([0.2126, 0.7152, 0.0722]) @ linear(c)) for c in (a, b))
    return (high + 0.05) / (low + 0.05)


def tokens(selector: str) -> dict[str, str]:
    block = re.search(re.escape(selector) + r"\s*\{([^}]*)\}", STYLE)
    assert block is not None
    return dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-fA-F]{6})", block[1]))


REPORT_STYLE = (Path(profiles.__file__).parent / "report.css").read_text()
REPORT_SURFACES = dict(zip(("light", "dark"), re.findall(r"--surface: (#[0-9a-f]{6})", REPORT_STYLE), strict=True))
SCHEMES = {"light": tokens(":root"), "dark": tokens(':root[data-mantine-color-scheme="dark"]')}


def test_every_tensor_class_has_a_colour_and_a_title() -> None:
    assert set(theme.CLASS_COLOURS) == set(theme.CLASS_TITLES) == set(TENSOR_CLASSES)


@pytest.mark.parametrize("vision", VISION)
def test_class_colours_differ_in_every_kind_of_colour_vision(vision: str) -> None:
    seen = {name: lab(VISION[vision] @ linear(colour)) for name, colour in theme.CLASS_COLOURS.items()}
    closest = min(combinations(seen, 2), key=lambda pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]))
    assert np.linalg.norm(seen[closest[0]] - seen[closest[1]]) > 20, closest


@pytest.mark.parametrize("vision", VISION)
def test_the_four_large_classes_differ_strongly(vision: str) -> None:
    large = ("weight", "optimizer_state", "gradient", "activation")
    seen = [lab(VISION[vision] @ linear(theme.CLASS_COLOURS[name])) for name in large]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 30


@pytest.mark.parametrize("colour", [theme.COMPUTE, theme.COPY_IN, theme.COPY_OUT])
def test_the_text_in_a_bar_is_readable(colour: str) -> None:
    assert contrast(colour, "#FFFFFF") >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("colour", [*PHASE_COLOURS.values(), COPY_IN, COPY_OUT, BLOCKING])
def test_the_bars_of_a_report_stand_out_from_its_ground(colour: str, scheme: str) -> None:
    """Graphical objects need 3:1 (WCAG 1.4.11); the report has the dashboard's two schemes."""
    assert contrast(colour, REPORT_SURFACES[scheme]) >= 3


@pytest.mark.parametrize("vision", VISION)
def test_what_lies_in_one_lane_differs_in_every_kind_of_colour_vision(vision: str) -> None:
    """Waiting in the compute lane, exposed time in those of copies; the lanes themselves have names."""
    within = [(theme.COMPUTE, theme.BLOCKING), (theme.COPY_IN, theme.EXPOSED), (theme.COPY_OUT, theme.EXPOSED)]
    for pair in within:
        a, b = (lab(VISION[vision] @ linear(colour)) for colour in pair)
        assert np.linalg.norm(a - b) > 25, pair


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("ground", ["surface", "surface-raised", "ground"])
def test_the_outline_of_a_field_stands_out(scheme: str, ground: str) -> None:
    colours = SCHEMES["light"] | SCHEMES[scheme]
    assert contrast(colours["control"], colours[ground]) >= 3


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("ink", "ground"),
    [
        ("ink", "ground"),
        ("ink", "surface"),
        ("ink-soft", "ground"),
        ("ink-soft", "surface"),
        ("ink-soft", "surface-raised"),
        ("accent", "surface"),
        ("accent", "selected"),
        ("good", "good-ground"),
        ("warn", "warn-ground"),
        ("bad", "bad-ground"),
        ("bad", "surface"),
    ],
)
def test_text_has_aa_contrast(scheme: str, ink: str, ground: str) -> None:
    light, dark = SCHEMES["light"], SCHEMES["dark"]
    colours = light if scheme == "light" else light | dark
    assert contrast(colours[ink], colours[ground]) >= 4.5


def test_nothing_in_the_assets_is_fetched_from_elsewhere() -> None:
    for path in (Path(theme.__file__).parent / "assets").iterdir():
        assert not re.search(r"(?:https?:)?//[a-z]", re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.M)), path.name
