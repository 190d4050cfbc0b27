"""Reaching into a machine of the cluster: commands as its users, its mounts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.errors import TestbedError
from testbed.layout import USERS, HostLayout, Layout, Spec

IDS = {"root": 0, **{user.name: user.id for user in USERS}}
HOMES = {"root": "/root", **{user.name: user.home for user in USERS}}


def wrapped(
    spec: Spec, host: str, user: str, argv: Sequence[str], cwd: str | Path | None
) -> list[str]:
    """*argv* so that it runs on *host* as *user*, in that user's home or in *cwd*."""
    if user not in IDS:
        raise TestbedError(f"no user {user!r}; there are {', '.join(IDS)}")
    if host not in spec.hosts:
        raise TestbedError(f"no machine {host!r}; there are {', '.join(spec.hosts)}")
    try:
        pid = Layout(spec.instance).of(host).pid.read_text()
    except FileNotFoundError as error:
        raise TestbedError(f"{host} has no power") from error
    return [
        "nsenter", f"--target={pid}", "--mount", "--net", "--uts", "--ipc", "--pid", "--cgroup",
        f"--setgid={IDS[user]}", f"--setuid={IDS[user]}",
        "--", "env", f"--chdir={cwd or HOMES[user]}", *argv,
    ]  # fmt: skip


def environment(spec: Spec, user: str, extra: Mapping[str, str] | None) -> dict[str, str]:
    """What a login shell of *user* would have, with the product's environment active."""
    return {
        "PATH": f"{spec.prefix}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": HOMES[user],
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
