"""Reaching into a machine of the cluster: commands as its users, its mounts."""

import pwd
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from testbed.errors import TestbedError
from testbed.layout import USERS, HostLayout, Layout, Spec


class Account(msgspec.Struct, frozen=True):
    """Somebody who can run things inside the cluster."""

    user_id: int
    group_id: int
    home: str


def accounts() -> dict[str, Account]:
    """The cluster's users, root, and slurm, whom slurmctld runs as."""
    slurm = pwd.getpwnam("slurm")
    return {
        **{user.name: Account(user.id, user.id, user.home) for user in USERS},
        "root": Account(0, 0, "/root"),
        "slurm": Account(slurm.pw_uid, slurm.pw_gid, "/"),
    }


def account(user: str) -> Account:
    """One of them."""
    known = accounts()
    if user not in known:
        raise TestbedError(f"no user {user!r}; there are {', '.join(known)}")
    return known[user]


def wrapped(
    spec: Spec, host: str, user: str, argv: Sequence[str], cwd: str | Path | None
) -> list[str]:
    """*argv* so that it runs on *host* as *user*, in that user's home or in *cwd*."""
    who = account(user)
    if host not in spec.hosts:
        raise TestbedError(f"no machine {host!r}; there are {', '.join(spec.hosts)}")
    try:
        pid = Layout(spec.instance).of(host).pid.read_text()
    except FileNotFoundError as error:
        raise TestbedError(f"{host} has no power") from error
    return [
        "nsenter", f"--target={pid}", "--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup",
        f"--setgid={who.group_id}", f"--setuid={who.user_id}",
        "--", "env", f"--chdir={cwd or who.home}", *argv,
    ]  # fmt: skip


def environment(spec: Spec, user: str, extra: Mapping[str, str] | None) -> dict[str, str]:
    """What a login shell of *user* would have, with the product's environment active."""
    return {
        "PATH": f"{spec.prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": account(user).home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        **(extra or {}),
    }


def mounted(here: HostLayout) -> list[str]:
    """Where something was mounted on a machine since it has booted, in that order."""
    return _mount_points(here)[len(here.mounts.read_text().splitlines()) :]


def remember_mounts(here: HostLayout) -> None:
    """Take what is mounted now for what belongs to the machine."""
    here.mounts.write_text("\n".join(_mount_points(here)))


def _mount_points(here: HostLayout) -> list[str]:
    lines = Path(f"/proc/{here.pid.read_text()}/mountinfo").read_text().splitlines()
    return [line.split()[4] for line in lines]
