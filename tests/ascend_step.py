"""Runs steps with MindSpore's cache operators on CPU, through kernels that stand in for Ascend's: a process of its own.

    python ascend_step.py KERNELS MODEL FILE.mindir SCHEDULE RESULT.npz loaded|compiled

``loaded`` runs the file through `nn.GraphCell`; ``compiled`` runs the model's own cell, with the file's values, into
whose graph our compiler pass puts the same edits. The result holds losses, parameters and what the kernels saw.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

STEPS = 3


def main(kernels: str, model: str, mindir: str, schedule: str, result: str, way: str) -> None:
    if way == "loaded":
        os.environ["MS_OP_PLUGIN_PATH"] = kernels  # MindSpore reads it when it first selects a kernel
    import mindspore as ms
    import numpy as np

    from hyperoffload_core.capture import load_source

    ms.set_context(mode=ms.GRAPH_MODE)
    cell, inputs = load_source(model)
    if way == "loaded":
        cell = ms.nn.GraphCell(ms.load(mindir))
    else:
        take_values(cell, Path(mindir))
        insert(cell, inputs, Path(schedule), kernels)
    losses = [np.asarray(first(cell(*inputs)).asnumpy()) for _ in range(STEPS)]
    library = ctypes.CDLL(kernels)
    library.ascend_bytes.restype = ctypes.c_int64
    calls = [(library.ascend_op(i), library.ascend_bytes(i)) for i in range(library.ascend_count())]
    # MindSpore's CPU memory of a parameter is what `asnumpy` shows.
    fetched = library.ascend_fetch_all()
    parameters = {f"parameter:{p.name}": p.asnumpy() for p in cell.get_parameters()}
    np.savez(result, losses=np.stack(losses), calls=np.array(calls), fetched=fetched, **parameters)


def first(result: Any) -> Any:
    """The first tensor of a step's result."""
    return first(result[0]) if isinstance(result, tuple) else result


def take_values(cell: Any, mindir: Path) -> None:
    """Give a cell's parameters the values that are in a MindIR."""
    import mindspore as ms
    import numpy as np
    from mindspore.train.mind_ir_pb2 import ModelProto

    model = ModelProto.FromString(mindir.read_bytes())
    values = {t.name.removeprefix(f"{model.graph.name}:"): t.raw_data for t in model.graph.parameter}
    for p in cell.get_parameters():
        array = np.frombuffer(values[p.name], p.asnumpy().dtype).reshape(p.shape).copy()
        p.set_data(ms.Tensor(array))


def insert(cell: Any, inputs: Any, schedule_file: Path, kernels: str) -> None:
    """Attach the cell as on Ascend, with the cache operators as calls of the kernels."""
    from hyperoffload_core.mindspore_plugin import passes
    from hyperoffload_core.mindspore_plugin.on_ascend import AttachedOnAscend
    from hyperoffload_core.schedule import read_schedule

    passes.register("cpu")
    passes._library().hyperoffload_pass_set_kernels(os.fsencode(kernels))
    AttachedOnAscend(cell, cell, read_schedule(schedule_file)).compile(*inputs)


if __name__ == "__main__":
    main(*sys.argv[1:])
