"""Reaching the test cluster's Slurm from the tests' own process."""

import shlex
from pathlib import Path

from slurm_resilience.slurm.commands import Commands
from testbed import Cluster
from testbed.commands import wrapped


def commands(
    cluster: Cluster, folder: Path, *, user: str = "root", timeout_s: float = 10.0
) -> Commands:
    """The product's own adapter, as *user* on the controller's machine."""
    for name in ("scontrol", "squeue", "sinfo"):
        path = folder / name
        line = shlex.join(wrapped(cluster.spec, "ctl", user, [f"/usr/bin/{name}"], None))
        path.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        path.chmod(0o755)
    return Commands(bin_dir=str(folder), timeout_s=timeout_s)
