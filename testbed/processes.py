"""Processes of the cluster as the real machine sees them."""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

from testbed.layout import USERS

SLURMD = "/usr/sbin/slurmd "
DAEMONS = (
    SLURMD,
    "/usr/sbin/munged ",
    "/usr/sbin/slurmctld ",
    "/usr/sbin/slurmstepd",
    "slurmstepd:",
)
USER_IDS = {user.id for user in USERS}


def of(init: int) -> dict[int, str]:
    """Every process in the PID namespace of *init*: id -> command line."""
    own = Path(f"/proc/{init}/ns/pid").readlink()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            if (folder / "ns/pid").readlink() == own:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                found[int(folder.name)] = b" ".join(words).decode(errors="replace").strip()
    return found


def matching(init: int, pattern: str) -> list[int]:
    """Ids of the processes in *init*'s namespace whose command line matches; no zombies."""
    return [pid for pid, line in of(init).items() if line and re.search(pattern, line)]


def owner(pid: int) -> int | None:
    """The user id that a process runs as; None where it is gone."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


def ranks(init: int) -> dict[int, int]:
    """Ids of torchrun's workers in *init*'s namespace, by rank."""
    environments = {pid: environment(pid) for pid in of(init)}
    workers = {pid for pid, variables in environments.items() if "LOCAL_RANK" in variables}
    # What a worker starts, data loaders for example, has its variables too.
    return {
        int(environments[pid]["RANK"]): pid for pid in workers if parent(pid) not in workers
    }


def hooks(init: int) -> set[int]:
    """What slurmd has started for itself in *init*'s namespace and waits for: its hooks."""
    lines = of(init)
    parents = {pid: parent(pid) for pid in lines}
    slurmd = {pid for pid, line in lines.items() if line.startswith(SLURMD)}
    return _below(slurmd, parents) - slurmd


def strays(init: int) -> set[int]:
    """What runs in *init*'s namespace and belongs to no daemon: users' and loose processes."""
    lines = of(init)
    parents = {pid: parent(pid) for pid in lines}
    daemons = {pid for pid, line in lines.items() if line.startswith(DAEMONS)}
    belongs = {init, *daemons, *_below(daemons, parents)}
    return {pid for pid in lines if pid not in belongs or _user_id(pid) in USER_IDS}


def _below(tops: set[int], parents: dict[int, int]) -> set[int]:
    found = set(tops)
    while fresh := {pid for pid, above in parents.items() if above in found} - found:
        found |= fresh
    return found - tops


def _user_id(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return 0


def environment(pid: int) -> dict[str, str]:
    """The variables that a process was started with; none where it is gone."""
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(word.split("=", 1) for word in words if "=" in word)


def parent(pid: int) -> int:
    """The id of a process's parent; 0 where it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def send(pids: Iterable[int], signum: signal.Signals) -> None:
    """Signal each that is still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)


class Command(subprocess.Popen[str]):
    """
    A command that runs inside the cluster.

    A signal goes to the command itself, not to the nsenter in front of it; `kill` ends whatever
    the command has started in its process group.
    """

    def send_signal(self, sig: int) -> None:
        """Signal the command."""
        while self.poll() is None:
            for folder in Path("/proc").glob("[0-9]*"):
                if parent(int(folder.name)) == self.pid:
                    os.kill(int(folder.name), sig)
                    return

    def kill(self) -> None:
        """End it and its process group at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
