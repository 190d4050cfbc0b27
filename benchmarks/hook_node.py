"""A node for the hooks' benchmarks: eight GPUs and as many links, all healthy, all expected."""

import os
import shutil
import sys
from pathlib import Path

from slurm_resilience.places import SITE_CONFIG
from testbed import nvml
from testbed.namespaces import NEW_MOUNTS, PRIVATE, RECURSIVE, mount, unshare
from testbed.sysfs import write_healthy

GPUS = 8
LINKS = 8
PYTHON = [f"{sys.prefix}/bin/python", "-c", "pass"]


class HookNode:
    """
    This machine as such a node, for this process and what it starts.

    Ends the program where it is not root or *shim* is not installed.
    """

    def __init__(self, folder: Path, shim: Path) -> None:
        if os.geteuid() != 0:
            sys.exit("benchmarks: a hook runs as root, with its own files; run this as root")
        if not shim.exists():
            sys.exit(f"benchmarks: {shim} not found; pip install this project first")
        self.folder = folder
        _keep_to_ourselves()
        state = folder / "state"
        nvml.write(state, nvml.h100s(GPUS))
        library = nvml.build(folder)
        sysfs, tools = folder / "sys", folder / "bin"
        links = [f"mlx5_{place}" for place in range(LINKS)]
        write_healthy(sysfs)
        adapters = sysfs / "class" / "infiniband"
        for link in links[1:]:
            shutil.copytree(adapters / links[0], adapters / link)
        tools.mkdir()
        (tools / "ibstat").write_text(_ibstat(links))
        (tools / "ibstat").chmod(0o755)
        kmsg = folder / "kmsg"
        kmsg.write_text("")
        site = Path(SITE_CONFIG)
        site.parent.mkdir(parents=True, exist_ok=True)
        site.write_text(_config(sysfs, kmsg, links))
        self.environment = {
            "LD_LIBRARY_PATH": str(library.parent),
            "PATH": f"{tools}:{os.environ['PATH']}",
            "STANDIN_NVML": str(state),
            "SLURM_JOB_ID": "1",
            "SLURM_JOB_GPUS": ",".join(map(str, range(GPUS))),
        }
        """What slurmd gives a hook, and how this node's GPUs are found."""


def _config(sysfs: Path, kmsg: Path, links: list[str]) -> str:
    expected = "".join(
        f"      mlx5_{place}:1: {{rate_gbps: 400}}\n" for place in range(len(links))
    )
    return (
        f"paths:\n  sysfs: {sysfs}\n  kmsg: {kmsg}\n"
        f"node:\n  expect:\n    gpus: {GPUS}\n    memory_mib: 1024\n"
        f"    disks:\n      /tmp: {{}}\n      /: {{}}\n    links:\n{expected}"
    )


def _ibstat(links: list[str]) -> str:
    """A stand-in for gpucm, which asks `ibstat` where this project reads sysfs."""
    said = "".join(
        f"CA '{link}'\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n"
        "\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
        for link in links
    )
    return f"#!/bin/sh\ncat <<'END'\n{said}END\n"


def _keep_to_ourselves() -> None:
    """Hide what this machine's own hooks keep, and its configuration, from these runs."""
    unshare(NEW_MOUNTS)
    mount("none", Path("/"), flags=PRIVATE | RECURSIVE)
    for path in (Path("/var/lib"), Path("/etc/slurm-resilience")):
        path.mkdir(parents=True, exist_ok=True)
        mount("tmpfs", path, "tmpfs")
