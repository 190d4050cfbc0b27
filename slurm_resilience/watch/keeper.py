"""
Keeps the user's command: `python -m slurm_resilience.watch.keeper GRACE_S SHIELD CMD…`.

A process between agent and command, so that no rank outlives its agent: it takes in every
orphan under it and ends the whole tree, at once when its standard input closes (the agent is
dead), with grace when a line comes there. torchrun and its ranks each lead a session of their
own; where Slurm tracks processes by their parents (proctrack/linuxproc) nothing else would find
them.

Ends with the command's status.
"""

import logging
import os
import select
import signal
import sys
from collections.abc import Sequence

from slurm_resilience.signals import Caught, caught
from slurm_resilience.watch.processes import adopt_orphans, end_tree, patience, shell_status

SHIELD = "shield"
COULD_NOT_START = 127
"""As a shell says it."""

log = logging.getLogger(__name__)


def command_line(grace_s: float, command: Sequence[str], *, shield: bool) -> list[str]:
    """How to start a keeper of *command*; *shield*: the command ignores SIGTERM."""
    word = SHIELD if shield else "-"
    return [sys.executable, "-m", "slurm_resilience.watch.keeper", str(grace_s), word, *command]


def main(arguments: Sequence[str]) -> int:
    """Run the command; its exit status as a shell tells it."""
    grace_s, shield, *command = arguments
    adopt_orphans()
    # Flags that nobody looks at: the keeper outlives every signal but KILL, and unlike SIG_IGN
    # a handler is not inherited by the command.
    others = (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)
    with caught(signal.SIGTERM, *others) as flags:
        if shield == SHIELD:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            child = _start(command)
        except OSError as error:
            log.error("cannot start %s: %s", command[0], error.strerror)
            return COULD_NOT_START
        status = _wait(child, flags)
        is_patient = patience(float(grace_s))
        for left in end_tree(lambda: is_patient() and not _is_orphan()):
            log.error("process %d waits in the kernel (%s) and cannot be ended", *left[::2])
    return status if status is not None else _reap(child) or 128 + signal.SIGKILL


def _start(command: list[str]) -> int:
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    return os.posix_spawnp(command[0], command, os.environ, file_actions=[nothing], setsid=True)


def _wait(command: int, flags: Caught) -> int | None:
    """The command's status; None where it has to be ended first."""
    while True:
        ready, _, _ = select.select([sys.stdin, flags.wakeup], [], [])
        flags.drain()
        status = _reap(command)
        if status is not None:
            return status
        if sys.stdin in ready:
            return None


def _is_orphan() -> bool:
    """Whether the agent is gone: its end of the pipe is closed."""
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready) and not os.read(sys.stdin.fileno(), 64)


def _reap(command: int) -> int | None:
    """Take every ended child, adopted ones too; the command's status where it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == command:
            found = shell_status(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    logging.basicConfig(format="slurm-resilience: %(message)s")
    sys.exit(main(sys.argv[1:]))
