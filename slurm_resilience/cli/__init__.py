"""
The `slurm-resilience` command: one small module a command group.

The only place that prints to people or chooses an exit status. 0: done (or fit); 1: unfit;
3: undecided; 2: could not do it, with one line that says why.
"""

import argparse
import logging
import sys
from collections.abc import Sequence

from slurm_resilience import __version__
from slurm_resilience.errors import ResilienceError

COULD_NOT = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command."""
    logging.basicConfig(format="slurm-resilience: %(message)s", level=logging.INFO)
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.do(arguments)
    except ResilienceError as error:
        print(f"slurm-resilience: {error}", file=sys.stderr)
        return COULD_NOT
    return status


def _parser() -> argparse.ArgumentParser:
    # Imported here: a command pays only for itself once these are split by name.
    from slurm_resilience.cli import (  # noqa: PLC0415
        checkpoint,
        controller,
        drains,
        node,
        run,
        status,
    )

    parser = argparse.ArgumentParser(
        prog="slurm-resilience",
        description="Keep training on Slurm going: find the fault, leave the node, resume.",
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for group in (run, node, drains, checkpoint, controller, status):
        group.add_commands(commands)
    return parser
