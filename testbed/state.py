"""The state directory: laid out before a cluster starts, swept away after one."""

import os
import pwd
import re
import secrets
import shutil
import subprocess
import time
from pathlib import Path

import msgspec

from testbed import configuration, gpus, slurm_conf, sysfs
from testbed.errors import TestbedError
from testbed.layout import ROOT, USERS, Layout, Spec

FREEZER = Path("/sys/fs/cgroup/freezer")
SWEEP_S = 10.0


def lay_out(spec: Spec, layout: Layout) -> None:
    """Write everything that the machines of the cluster find when they boot."""
    layout.state.mkdir()
    layout.mark.touch()
    for folder in (layout.logs, layout.shared, layout.shared / "home", layout.etc / "slurm"):
        folder.mkdir(parents=True)
    for user in USERS:
        home = layout.shared / "home" / user.name
        home.mkdir()
        os.chown(home, user.id, user.id)
    _munge_key(layout.etc / "munge")
    (layout.etc / "slurm/slurm.conf").write_text(slurm_conf.slurm_conf(spec))
    (layout.etc / "slurm/gres.conf").write_text(slurm_conf.gres_conf(spec))
    (layout.etc / "slurm/cgroup.conf").write_text(slurm_conf.cgroup_conf(slurm_version()))
    configuration.write(layout, spec.config)
    slurm = pwd.getpwnam("slurm")
    os.chown(layout.logs, slurm.pw_uid, slurm.pw_gid)
    for host in spec.hosts:
        here = layout.of(host)
        for folder in (here.root, here.run, here.kept, here.spool / "d", here.spool / "ctld"):
            folder.mkdir(parents=True)
        here.kept.chmod(0o700)
        os.chown(here.spool / "ctld", slurm.pw_uid, slurm.pw_gid)
        sysfs.write_healthy(here.sysfs)
        gpus.set_healthy(here, spec.gpus if host in spec.node_names else 0)
    layout.spec.write_bytes(msgspec.json.encode(spec))


def slurm_version() -> tuple[int, int]:
    """The installed Slurm's, for example (22, 5)."""
    said = subprocess.run(
        ["slurmctld", "-V"], capture_output=True, text=True, check=True
    ).stdout
    numbers = re.search(r"(\d+)\.(\d+)", said)
    if numbers is None:
        raise TestbedError(f"slurmctld -V says {said.strip()!r}: which version is that?")
    return int(numbers[1]), int(numbers[2])


def join_cgroup(layout: Layout, host: str, pid: int) -> None:
    """Give *host* a freezer hierarchy of its own, with its init in it."""
    own = FREEZER / layout.cgroup / host
    own.mkdir(parents=True, exist_ok=True)
    (own / "cgroup.procs").write_text(str(pid))


def sweep(layout: Layout) -> None:
    """Remove what a cluster that is gone may have left: its directory and its cgroups."""
    _sweep_cgroups(FREEZER / layout.cgroup)
    if not layout.state.exists():
        return
    if not layout.mark.exists() or layout.state.stat().st_uid != 0:
        raise TestbedError(f"{layout.state} is not the testbed's; move it away")
    shutil.rmtree(layout.state)


def make_root() -> None:
    """Make the directory that all instances live in; refuse a foreign one."""
    ROOT.mkdir(mode=0o755, exist_ok=True)
    status = ROOT.lstat()
    if ROOT.is_symlink() or status.st_uid != 0 or status.st_mode & 0o022:
        raise TestbedError(f"{ROOT} is not root's alone; remove it")


def empty(folder: Path) -> None:
    """Remove what is in a directory, also while others are at work in it."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _sweep_cgroups(top: Path) -> None:
    deadline = time.monotonic() + SWEEP_S
    for folder in sorted(top.glob("**/"), reverse=True):
        while True:
            try:
                folder.rmdir()
                break
            except OSError as error:  # the kernel is still ending what was in it
                if time.monotonic() > deadline:
                    raise TestbedError(
                        f"{folder} cannot be removed: {error.strerror}"
                    ) from error
                time.sleep(0.01)


def _munge_key(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
