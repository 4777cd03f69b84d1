"""The field for how a run is run: op by op, or inside MindSpore's graph mode."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc

OP_BY_OP, GRAPH_MODE = "op by op", "MindSpore graph mode"


def field(identity: str, *, graph_mode: bool = False, **looks: Any) -> Any:
    return dmc.Select(
        id=identity,
        label="Run it",
        data=[OP_BY_OP, GRAPH_MODE],
        value=GRAPH_MODE if graph_mode else OP_BY_OP,
        allowDeselect=False,
        **looks,
    )
