"""
The file tree of one machine of the cluster.

The root is an overlay of the real machine's files under a tmpfs: all its programs are there,
and whatever is written stays in the node and is gone with it. Nothing outside can be changed,
except below the state directory.
"""

import os
import shutil
import socket
import stat
import sysconfig
from pathlib import Path

from testbed import identity, nvml
from testbed.layout import CHECKOUT, HostLayout, Layout, Spec
from testbed.namespaces import (
    NO_DEV,
    NO_EXEC,
    NO_SUID,
    PRIVATE,
    RECURSIVE,
    bind,
    enter_root,
    mount,
)

OWN = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/mnt", "/media", "/boot")
"""Below these nothing of the real machine is shown."""
DEVICES = {
    "null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9),
    "tty": (5, 0), "net/tun": (10, 200), "fuse": (10, 229),
}  # fmt: skip


def enter(spec: Spec, layout: Layout, host: str) -> None:
    """Build *host*'s tree and make it this process's own; needs fresh mount namespaces."""
    here = layout.of(host)
    mount("none", Path("/"), flags=PRIVATE | RECURSIVE)
    root = _overlays(here)
    _kernel_file_systems(root, cgroups=spec.proctrack == "cgroup")
    _devices(root, spec.gpus)
    for path, mode in (("run", 0o755), ("tmp", 0o1777), ("var/tmp", 0o1777)):
        mount("tmpfs", root / path, "tmpfs", NO_SUID | NO_DEV, f"mode={mode:o}")
    _own_files(root, spec, layout, here)
    _product(root, spec)
    _gpu_library(root)
    enter_root(root)
    socket.sethostname(host)


def _overlays(here: HostLayout) -> Path:
    mount("tmpfs", here.root, "tmpfs", 0, "mode=755")
    root = here.root / "root"
    for number, point in enumerate(["/", *_mount_points()]):
        upper, work = here.root / f"upper{number}", here.root / f"work{number}"
        for path in (upper, work):
            path.mkdir()
        shutil.copystat(point, upper)
        target = root / point.lstrip("/")
        target.mkdir(exist_ok=True)
        options = f"lowerdir={point},upperdir={upper},workdir={work}"
        try:
            mount("overlay", target, "overlay", 0, options)
        except OSError:
            if point == "/":
                raise
            bind(Path(point), target, read_only=True)  # not every file system can be below one
    return root


def _mount_points() -> list[str]:
    """Directories of the real machine where another file system is mounted."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = dict.fromkeys(line.split()[4].encode().decode("unicode_escape") for line in lines)
    return [
        point
        for point in points
        if point != "/"
        and Path(point).is_dir()
        and not any(point == own or point.startswith(f"{own}/") for own in OWN)
    ]


def _kernel_file_systems(root: Path, *, cgroups: bool) -> None:
    mount("proc", root / "proc", "proc", NO_SUID | NO_DEV | NO_EXEC)
    mount("sysfs", root / "sys", "sysfs", NO_SUID | NO_DEV | NO_EXEC)
    top = root / "sys/fs/cgroup"
    mount("tmpfs", top, "tmpfs", NO_SUID | NO_DEV | NO_EXEC, "mode=755")
    if cgroups:
        (top / "freezer").mkdir()
        mount("cgroup", top / "freezer", "cgroup", NO_SUID | NO_DEV | NO_EXEC, "freezer")


def _devices(root: Path, gpus: int) -> None:
    dev = root / "dev"
    mount("tmpfs", dev, "tmpfs", NO_SUID, "mode=755")
    for name in ("net", "pts", "shm"):
        (dev / name).mkdir()
    before = os.umask(0)
    # A job is given a GPU by its device file; what is behind it nobody opens.
    gpu_devices = {f"nvidia{index}": DEVICES["null"] for index in range(gpus)}
    for name, numbers in {**DEVICES, **gpu_devices}.items():
        os.mknod(dev / name, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
    os.umask(before)
    mount(
        "devpts", dev / "pts", "devpts", NO_SUID | NO_EXEC, "newinstance,ptmxmode=0666,mode=620"
    )
    mount("tmpfs", dev / "shm", "tmpfs", NO_SUID | NO_DEV, "mode=1777")
    for name, target in {
        "ptmx": "pts/ptmx",
        "fd": "/proc/self/fd",
        "stdin": "/proc/self/fd/0",
        "stdout": "/proc/self/fd/1",
        "stderr": "/proc/self/fd/2",
    }.items():
        (dev / name).symlink_to(target)


def _own_files(root: Path, spec: Spec, layout: Layout, here: HostLayout) -> None:
    etc = root / "etc"
    _write(etc / "passwd", identity.passwd((etc / "passwd").read_text()))
    _write(etc / "group", identity.group((etc / "group").read_text()))
    _write(etc / "hosts", identity.hosts(spec))
    _write(etc / "hostname", f"{here.state.name}\n")
    _write(etc / "nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
    for source, target in (
        (layout.etc / "slurm", "/etc/slurm"),
        (layout.etc / "munge", "/etc/munge"),
        (layout.etc / "slurm-resilience", "/etc/slurm-resilience"),
        (layout.logs, "/var/log/slurm"),
        (layout.shared, "/shared"),
        (layout.shared, str(layout.shared)),  # a path of the test is a path of the job
        (here.spool, "/var/spool/slurm"),
        (here.kept, "/var/lib/slurm-resilience"),
        (here.run, "/run/testbed"),
    ):
        bind(source, _directory(root, target))
    boot_id = here.state / "boot_id"
    boot_id.write_text(Path("/proc/sys/kernel/random/uuid").read_text())
    bind(boot_id, root / "proc/sys/kernel/random/boot_id", read_only=True)


def _product(root: Path, spec: Spec) -> None:
    """Show checkout and environment as they are at every moment, and open the way to them."""
    for source in dict.fromkeys((CHECKOUT, Path(spec.prefix))):
        bind(source, _directory(root, str(source)), read_only=True)
    real = Path(spec.prefix, "bin/python3").resolve()
    for path in {*CHECKOUT.parents, *Path(spec.prefix).parents, *real.parents}:
        inside = root / str(path).lstrip("/")
        if not inside.stat().st_mode & stat.S_IXOTH:
            inside.chmod(stat.S_IMODE(inside.stat().st_mode) | stat.S_IXOTH)


def _gpu_library(root: Path) -> None:
    """Put the stand-in where the loader looks without being told."""
    folder = _directory(root, f"/usr/lib/{sysconfig.get_config_var('MULTIARCH') or ''}")
    link = folder / nvml.LIBRARY
    link.unlink(missing_ok=True)
    link.symlink_to(nvml.DIRECTORY / nvml.LIBRARY)


def _directory(root: Path, path: str) -> Path:
    target = root / path.lstrip("/")
    target.mkdir(parents=True, exist_ok=True)
    return target


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)  # it may be a link that leads elsewhere
    path.write_text(text)
