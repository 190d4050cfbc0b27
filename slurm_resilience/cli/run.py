"""Commands of a batch script: `run`, and `agent`, which `run` starts on each node."""

import argparse
import os
from pathlib import Path

from slurm_resilience.watch.heartbeat import MOST_RANKS


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    run = commands.add_parser(
        "run",
        help="in a batch script: run a command on all nodes of the job, watched",
        description="Run a command on all nodes of this job. torchrun is told where to meet; a "
        "stalled or crashed attempt is ended, its evidence kept, and the job brought back.",
    )
    run.add_argument(
        "--run-dir",
        type=_directory,
        metavar="DIR",
        help="where the job's records go (default: what its Comment says, else "
        "slurm-resilience/<job id> in the directory it was submitted from)",
    )
    run.add_argument(
        "--nproc-per-node",
        type=_ranks,
        metavar="N",
        help="ranks on each node (default: one for each GPU)",
    )
    run.add_argument(
        "--stall-s",
        type=_positive_float,
        metavar="SECONDS",
        help="how long no rank may make a step (default: watch.stall_s of the configuration)",
    )
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD…")
    run.set_defaults(do=_run)
    agent = commands.add_parser("agent", help="started by `run` on each node; not for people")
    agent.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD…")
    agent.set_defaults(do=_agent)


def _run(arguments: argparse.Namespace) -> int:
    from slurm_resilience import config  # noqa: PLC0415 - an agent does without
    from slurm_resilience.launch.run import Wishes, run  # noqa: PLC0415

    wishes = Wishes(arguments.run_dir, arguments.nproc_per_node, arguments.stall_s)
    return run(_words(arguments), wishes, os.environ, config.load())


def _agent(arguments: argparse.Namespace) -> int:
    from slurm_resilience.watch.agent import run  # noqa: PLC0415

    return run(_words(arguments), os.environ)


def _words(arguments: argparse.Namespace) -> list[str]:
    words: list[str] = arguments.command
    return words[1:] if words[:1] == ["--"] else words


def _directory(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty; leave it out for the default")
    return Path(text)


def _ranks(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MOST_RANKS:
        raise argparse.ArgumentTypeError(f"{text}: at least 1, at most {MOST_RANKS}")
    return number


def _positive_float(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text}: more than 0")
    return number
