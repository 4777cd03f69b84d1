"""The program `hyperoffload`: its commands, and how every error becomes one sentence and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import typer

from app.cli.answer import answer
from app.cli.capture import capture
from app.cli.compare import compare
from app.cli.compile import compile_command
from app.cli.demo import demo
from app.cli.display import PlainConsole
from app.cli.emit import emit
from app.cli.experiments import experiments
from app.cli.explain import explain
from app.cli.export import export
from app.cli.hardware import hardware
from app.cli.help import Group, in_one_style
from app.cli.jobs import jobs
from app.cli.pack import pack
from app.cli.policies import policies
from app.cli.run import run as run_command
from app.cli.runs import runs
from app.cli.serve import serve
from app.cli.simulate import simulate
from app.cli.sql import sql
from app.cli.strategies import strategies
from app.cli.sweep import sweep
from app.cli.work import work
from hyperoffload_core.errors import UserError

cli = typer.Typer(
    name="hyperoffload",
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    help="""
Run MindSpore models that do not fit the device: compile where every tensor is and when it moves, execute the
schedule for real, and see memory and transfers in the browser.

**Start with** `hyperoffload demo`. **With a model of your own:** write a function that returns a cell and its inputs,
then `hyperoffload run FILE.py:FUNCTION --limit 60%` and `hyperoffload serve`.

Everything that is compiled or run is recorded in one SQLite file, `hyperoffload.db` in the working directory unless
`--database` or the environment variable `HYPEROFFLOAD_DATABASE` names another.

Exit codes: 0 done, 1 a fault of this program, 2 something was wrong with what was asked, 130 interrupted.
""",
)

_START, _OWN, _LOOK = "Start here", "Compile and run", "Look at results"
cli.command(rich_help_panel=_START)(demo)
cli.command(rich_help_panel=_START)(serve)
cli.command(rich_help_panel=_OWN)(capture)
cli.command("compile", rich_help_panel=_OWN)(compile_command)
cli.command(rich_help_panel=_OWN)(sweep)
cli.command("run", rich_help_panel=_OWN)(run_command)
cli.command(rich_help_panel=_OWN)(simulate)
cli.command(rich_help_panel=_OWN)(emit)
cli.command(rich_help_panel=_OWN)(pack)
cli.add_typer(runs, name="runs", cls=Group, rich_help_panel=_LOOK)
cli.command(rich_help_panel=_LOOK)(jobs)
cli.add_typer(policies, name="policies", cls=Group, rich_help_panel=_LOOK)
cli.command(rich_help_panel=_LOOK)(sql)
cli.command(rich_help_panel=_LOOK)(explain)
cli.command(rich_help_panel=_LOOK)(compare)
cli.command(rich_help_panel=_LOOK)(export)
cli.command(rich_help_panel=_LOOK)(experiments)
cli.command(rich_help_panel="What there is")(hardware)
cli.command(rich_help_panel="What there is")(strategies)
cli.command(hidden=True)(work)
cli.command(hidden=True)(answer)
in_one_style(cli, runs, policies)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; its exit code."""
    try:
        cli(args=arguments, prog_name="hyperoffload")
    except SystemExit as ended:
        if ended.code == 130:
            return _say("interrupted", 130)
        return ended.code if isinstance(ended.code, int) else 0
    except UserError as error:
        return _say(str(error), 2, getattr(error, "advice", ""))
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except BrokenPipeError:
        # The reader (head, less) has seen enough; Python must not complain again when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("HYPEROFFLOAD_TRACEBACK"):
            traceback.print_exc()
        log = getattr(error, "log", "")
        lines = (str(error).strip() or type(error).__name__).splitlines()
        code = _say(
            f"{lines[0]} (this is a fault of HyperOffload; run again with HYPEROFFLOAD_TRACEBACK=1 to see where)", 1
        )
        if log and os.environ.get("HYPEROFFLOAD_TRACEBACK"):
            print(log, file=sys.stderr)
        return code
    return 0


def _say(sentence: str, code: int, advice: str = "") -> int:
    console = PlainConsole(stderr=True, highlight=False, soft_wrap=True)
    console.print("hyperoffload:", style="bold red" if code not in (0, 130) else "bold", end=" ")
    console.print(sentence, markup=False)
    if advice:
        console.print(advice, markup=False)
    return code
