"""
The `slurm-resilience` command: one small module a command group.

The only place that prints to people or chooses an exit status. 0: done (or fit); 1: unfit, or none
there; 3: undecided; 2: could not do it, with one line that says why; 70: a fault of this program.
"""

import argparse
import logging
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from slurm_resilience import __version__
from slurm_resilience.cli.output import OutputError, standard_output, write_no_more
from slurm_resilience.errors import ResilienceError
from slurm_resilience.plain import plain

COULD_NOT = 2
FAULT = 70
"""EX_SOFTWARE of sysexits.h. Python's own status for a traceback is 1, which is an answer here."""
MOST_SAID = 250
"""Characters of a refusal: what was typed stands in it."""
UNHEARD = 141
"""What a shell makes of SIGPIPE."""

_STATUSES = (
    "Exit status, of every command but `run` and `agent`, which end as what they run: 0 done (or fit,"
    " sound); 1 unfit, unsound, or none there; 2 could not do it, one line says why; 3 undecided;"
    " 70 a fault of this program, with its traceback."
)


class _Lines(logging.Formatter):
    """One line a record, whatever text of a user's is in it."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        return plain(super().formatMessage(record))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command."""
    said = logging.StreamHandler()
    said.setFormatter(_Lines("slurm-resilience: %(message)s"))
    logging.basicConfig(handlers=[said], level=logging.INFO)
    try:
        with standard_output():
            arguments = _parser().parse_args(argv)
            status: int = arguments.do(arguments)
    except ResilienceError as error:
        if isinstance(error, OutputError):
            write_no_more()
        print(f"slurm-resilience: {plain(str(error))}", file=sys.stderr)
        return COULD_NOT
    except BrokenPipeError:
        write_no_more()
        return UNHEARD
    except Exception:  # noqa: BLE001 - the last place where the exit status can be chosen
        traceback.print_exc()
        return FAULT
    return status


class _Parser(argparse.ArgumentParser):
    """argparse, whose refusals are one line here and no screen of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(
            COULD_NOT,
            f"{self.prog}: {plain(message, most=MOST_SAID)}; see {self.prog} --help\n",
        )


def _parser() -> argparse.ArgumentParser:
    # Imported here: a command pays only for itself once these are split by name.
    from slurm_resilience.cli import (  # noqa: PLC0415
        check,
        checkpoint,
        controller,
        decode,
        diagnose,
        doctor,
        lint,
        node,
        plan,
        run,
        status,
    )

    parser = _Parser(
        prog="slurm-resilience",
        description="Keep training on Slurm going: find the fault, leave the node, resume.",
        epilog=_STATUSES,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for group in (
        run,
        check,
        decode,
        node,
        doctor,
        checkpoint,
        controller,
        status,
        diagnose,
        lint,
        plan,
    ):
        group.add_commands(commands)
    return parser
