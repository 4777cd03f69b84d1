"""Policies to start from."""

from __future__ import annotations

from hyperoffload_core.policy.schema import Policy, Rule

PRESETS: dict[str, Policy] = {
    policy.name: policy
    for policy in (
        Policy(name="balanced", memory_limit="60%"),
        Policy(
            name="optimizer states remote",
            memory_limit="60%",
            rules=(Rule(tensor_class="optimizer_state", action="offload"),),
        ),
        Policy(
            name="weights stay",
            memory_limit="75%",
            rules=(Rule(tensor_class="weight", action="keep"),),
        ),
    )
}
