"""The demo at 60 % and 45 % of its no-offload live peak: peaks, step times, predictions, results.

    python -m bench.demo [STEPS]

Runs `hyperoffload demo` as a person would and prints a Markdown table. Measured on this machine, copies paced to the
demo's default link; all schedules of a row's run take their steps in turn.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LIMITS = ("60%", "45%")
MIB = 2**20


def demo(limit: str, steps: int) -> dict[str, Any]:
    """The JSON document of one run of the demo, recorded into a database that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "hyperoffload", "demo", "--json", "--limit", limit, "--steps", str(steps)]
        command += ["--database", str(Path(folder) / "bench.db")]
        return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def main(steps: int = 10) -> None:
    print(
        "| limit | schedule | planned peak MiB | measured peak MiB | step ms (min..max) | against no offload "
        "| predicted ms | prediction off by | blocking ms | overlap | bit-identical |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|")
    for limit in LIMITS:
        rows = demo(limit, steps)["policies"]
        baseline = rows[0]["step_median_ns"]
        for row in rows:
            median, predicted = row["step_median_ns"], row["predicted_step_ns"]
            overlap = "" if row["overlap"] is None else f"{row['overlap']:.0%}"
            print(
                f"| {limit} | {row['policy']} | {row['peak_planned_bytes'] / MIB:.1f} "
                f"| {row['peak_measured_bytes'] / MIB:.1f} | {median / 1e6:.0f} ({row['step_min_ns'] / 1e6:.0f}.."
                f"{row['step_max_ns'] / 1e6:.0f}) | {median / baseline:.3f} | {predicted / 1e6:.0f} "
                f"| {predicted / median - 1:+.1%} | {row['blocking_ns'] / 1e6:.1f} | {overlap} "
                f"| {'yes' if row['bit_identical'] else 'NO'} |",
                flush=True,
            )


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
