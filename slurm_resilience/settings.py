"""Settings that belong to no single part: where things lie, and how to reach Slurm."""

from typing import Literal

import msgspec

from slurm_resilience import places


class Paths(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Roots of what is read and kept."""

    sysfs: str = "/sys"
    proc: str = "/proc"
    kmsg: str = "/dev/kmsg"
    state: str = places.STATE
    """Kept over a reboot: the ledger, the last health verdict, counters. Root's alone."""


class SlurmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to reach Slurm."""

    adapter: Literal["commands", "pyslurm"] = "commands"
    bin_dir: str = ""
    """Where scontrol and its kin lie; empty: PATH, then /usr/bin and /opt/slurm/bin."""
    timeout_s: float = 10.0
    """For one question. Hooks use a shorter one of their own."""
