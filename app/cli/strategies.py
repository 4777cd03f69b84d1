"""`hyperoffload strategies`"""

from __future__ import annotations

from app.cli.display import console, print_json
from app.cli.options import Json
from hyperoffload_core.strategies import STRATEGIES


def strategies(json: Json = False) -> None:
    """List the planning algorithms, their options and where each comes from."""
    if json:
        print_json(
            [
                {
                    "name": s.name,
                    "title": s.title,
                    "help": s.help,
                    "source": s.source,
                    "options": [
                        {"name": o.name, "default": o.default, "help": o.help, "choices": o.choices} for o in s.options
                    ],
                }
                for s in STRATEGIES.values()
            ]
        )
        return
    for s in STRATEGIES.values():
        console.print(f"[bold]{s.name}[/bold]  {s.title}")
        console.print(f"  {s.help}", markup=False)
        console.print(f"  Source: {s.source}", markup=False, style="dim")
        for o in s.options:
            one_of = f" (one of {', '.join(o.choices)})" if o.choices else ""
            console.print(f"  --option {o.name}={o.default}  {o.help}{one_of}", markup=False)
        console.print()
