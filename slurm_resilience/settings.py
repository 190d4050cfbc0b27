"""Settings that belong to no single part: where things lie, and how to reach Slurm."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from slurm_resilience import places

Seconds = Annotated[float, Meta(gt=0, le=30 * 24 * 3600)]
"""A limit of any part. Thirty days at most: an endless one, or a slip of the keyboard, would switch
off without a word what it limits."""
AbsolutePath = Annotated[str, Meta(pattern=r"^/[^\x00]*$")]
"""Root's working directory, and so what a relative path means, is whoever started it."""


class Paths(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Roots of what is read and kept."""

    sysfs: AbsolutePath = "/sys"
    proc: AbsolutePath = "/proc"
    kmsg: AbsolutePath = "/dev/kmsg"
    state: AbsolutePath = places.STATE
    """Kept over a reboot: the ledger, the last health verdict, counters. Root's alone."""
    tools: tuple[AbsolutePath, ...] = (
        "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin",
    )  # fmt: skip
    """Folders in which the health check looks for other people's commands (nvme, ipmitool, dcgmi,
    …), first one first: hooks get no PATH. A file that not only root can write is passed over."""


class SlurmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to reach Slurm."""

    adapter: Literal["commands", "pyslurm"] = "commands"
    bin_dir: Annotated[str, Meta(pattern=r"^(/[^\x00]*)?$")] = ""
    """Where scontrol and its kin lie; empty: PATH, then /usr/bin and /opt/slurm/bin."""
    timeout_s: Seconds = 10.0
    """For one question. Hooks use a shorter one of their own."""
