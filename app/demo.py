"""What the demo runs: the same from the command line and from the browser."""

from __future__ import annotations

from app.policies import save_version
from app.requests import RunRequest
from db.database import Database
from hyperoffload_core.policy import Policy

DEMO_MODEL = "demo"
DEMO_STEPS = 10
DEMO_LIMIT = "60%"
DEMO_LINK = "1GB/s"


def demo_policies(limit: str = DEMO_LIMIT) -> list[Policy]:
    """Ours, and the one that copies on demand, under the same limit."""
    return [Policy(name=name, strategy=name, memory_limit=limit) for name in ("hyperoffload", "reactive")]


def demo_request(database: Database) -> RunRequest:
    """The demo as a job; its policies are saved under their names."""
    policies = demo_policies()
    return RunRequest(
        model=DEMO_MODEL,
        policies=tuple(policies),
        steps=DEMO_STEPS,
        link_bandwidth=DEMO_LINK,
        policy_version_ids=tuple(save_version(database, policy) for policy in policies),
    )
