"""Running a command on a machine of the cluster, as one of its users."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.errors import TestbedError
from testbed.layout import USERS, Layout, Spec

IDS = {"root": 0, **{user.name: user.id for user in USERS}}
HOMES = {"root": "/root", **{user.name: user.home for user in USERS}}


def inside(
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


def end(process: subprocess.Popen[str]) -> None:
    """Kill what a command has started, on whatever side of the namespaces."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
