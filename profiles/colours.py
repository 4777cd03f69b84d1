"""Colours of what reports and the dashboard both draw, so that a thing has one colour everywhere."""

from __future__ import annotations

# One per compared run; each has a style of its own beside it where the colour does not tell them apart.
RUN_COLOURS = ("#255CDD", "#ED962F", "#1F9252", "#BD65A5", "#45C1ED", "#B62121", "#8643A5", "#58605C")
COMPUTE = "#64748B"
COPY_IN = "#0D8073"
COPY_OUT = "#7C55D9"
# Little blue in it, so that it differs from the grey of compute where red is not seen.
BLOCKING = "#E4142A"

# Compute by phase; every bar stands out by 3:1 from a light and from a dark ground.
PHASE_COLOURS = {
    "forward": "#7C8DB5",
    "backward": "#5E6F99",
    "optimizer": "#93826F",
    "prefill": "#7C8DB5",
    "decode": "#5E6F99",
}
