"""Commands of `controller`: the daemon."""

import argparse
import logging
import os
from contextlib import ExitStack
from pathlib import Path

from slurm_resilience import config
from slurm_resilience.errors import UsageError
from slurm_resilience.ledger import Ledger
from slurm_resilience.locks import held
from slurm_resilience.requeue.incidents import Incidents
from slurm_resilience.requeue.loop import Controller, serve
from slurm_resilience.requeue.memory import Memory
from slurm_resilience.requeue.settings import RequeueSettings
from slurm_resilience.slurm.connect import connect

log = logging.getLogger(__name__)

ATTEMPTS_PER_FUTILE = 4
"""How far back incidents are read: attempts that left none lie between those that count."""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    parser = commands.add_parser(
        "controller",
        help="bring jobs back without the faulty node",
        description="Watch the jobs that take part, and requeue those that stalled or crashed "
        "without the nodes that are suspected. One a cluster, as root or SlurmUser; or one of "
        "your own with --user.",
    )
    parser.add_argument("--once", action="store_true", help="look once, then end")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be done, change nothing"
    )
    parser.add_argument("--user", action="store_true", help="see to your own jobs only")
    parser.add_argument(
        "--state", type=Path, metavar="DIR", help="where the ledger and the lock are kept"
    )
    parser.set_defaults(do=_run)


def _run(arguments: argparse.Namespace) -> int:
    settings = config.load()
    with ExitStack() as stack:
        if arguments.dry_run:
            ledger = Ledger(None)
        else:
            state = _state(arguments, settings.paths.state)
            stack.enter_context(held(state / "controller.lock"))
            ledger = Ledger(state / "ledger.sqlite")
        stack.callback(ledger.close)
        controller = Controller(
            slurm=connect(settings.slurm),
            memory=Memory(ledger),
            incidents=_incidents(settings.requeue),
            settings=settings.requeue,
            user_id=os.getuid() if arguments.user else None,
            dry_run=arguments.dry_run,
        )
        if arguments.once:
            controller.tick()
        else:
            log.info("controller: looks every %g s", settings.requeue.tick_s)
            serve(controller, settings.requeue)
    return 0


def _incidents(settings: RequeueSettings) -> Incidents:
    return Incidents(
        as_owner=os.geteuid() == 0,
        timeout_s=settings.read_timeout_s,
        attempts=settings.max_futile_attempts * ATTEMPTS_PER_FUTILE,
    )


def _state(arguments: argparse.Namespace, site: str) -> Path:
    state: Path = arguments.state or (_own_state() if arguments.user else Path(site))
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o755)
    except OSError as error:
        raise UsageError(f"{state}: {error.strerror}; give --state DIR") from error
    if not os.access(state, os.W_OK | os.X_OK):
        raise UsageError(
            f"{state}: not writable; run as root or SlurmUser, or with --user for your own jobs"
        )
    return state


def _own_state() -> Path:
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "slurm-resilience"
