"""What rules say: a finding with a severity. And every check there is."""

from collections.abc import Iterable
from enum import Enum
from functools import total_ordering

import msgspec


@total_ordering
class Severity(Enum):
    """How bad a finding is for the node, least first."""

    OK = "ok"
    UNKNOWN = "unknown"
    """It could not be seen whether the node is fit. Never a reason to drain."""
    WARN = "warn"
    DRAIN_WHEN_IDLE = "drain-when-idle"
    """What runs may end; nothing new may start."""
    DRAIN = "drain"

    def __lt__(self, other: "Severity") -> bool:
        order = list(Severity)
        return order.index(self) < order.index(other)


class Check(msgspec.Struct, frozen=True):
    """One thing that is looked at."""

    probe: str
    """The probe whose facts decide."""
    meaning: str
    """What a finding of it means, and what helps."""
    slow: bool = False
    """Only the health check looks; the prolog takes its word."""
    of_gpus: bool = False
    """Of no concern to a job without GPUs."""


CHECKS: dict[str, Check] = {
    "driver-library-mismatch": Check(
        "nvml",
        "the NVIDIA driver was updated but not reloaded; reboot or reload it",
        of_gpus=True,
    ),
    "driver-not-loaded": Check(
        "nvml", "GPUs are expected, but the NVIDIA driver is not loaded", of_gpus=True
    ),
    "nvml-unavailable": Check(
        "nvml", "NVML cannot be used, so nothing is known of the GPUs", of_gpus=True
    ),
    "gpu-missing": Check("nvml", "fewer GPUs answer than `expect.gpus`", of_gpus=True),
    "gpu-lost": Check(
        "nvml", "the GPU has fallen off the bus; reboot, then look at its seating", of_gpus=True
    ),
    "reset-required": Check("nvml", "the GPU does no work until it is reset", of_gpus=True),
    "recovery-action": Check(
        "nvml", "the driver itself asks for a reset or a reboot", of_gpus=True
    ),
    "ecc-uncorrected": Check(
        "nvml", "memory errors that ECC could not correct; reset the GPU", of_gpus=True
    ),
    "row-remap-pending": Check(
        "nvml", "a faulty row is mapped out by the next GPU reset", of_gpus=True
    ),
    "row-remap-failed": Check(
        "nvml", "no spare row is left; the GPU needs replacing", of_gpus=True
    ),
    "retired-pages-pending": Check(
        "nvml", "faulty pages are retired by the next GPU reset", of_gpus=True
    ),
    "xid": Check("kernel_log", "the NVIDIA driver reported an Xid", of_gpus=True),
    "sxid": Check("kernel_log", "an NVSwitch reported an SXid", of_gpus=True),
    "gpu-fell-off-bus": Check(
        "kernel_log", "the kernel log tells of a lost GPU without any Xid", of_gpus=True
    ),
    "nic-fault": Check("kernel_log", "a network adapter's driver reported a fault"),
    "hung-task": Check(
        "kernel_log", "a process is stuck in the kernel after a GPU error", of_gpus=True
    ),
    "driver-hung": Check(
        "nvml", "NVML does not answer and the kernel reports stuck processes", of_gpus=True
    ),
    "link-down": Check("network", "a link named in `expect.links` is not up"),
    "link-slow": Check("network", "a link is up at less than its expected rate"),
    "disk-missing": Check("disk", "a watched path is absent, or nothing is mounted there"),
    "disk-read-only": Check("disk", "a watched file system cannot be written"),
    "disk-full": Check("disk", "a watched file system has no room left"),
    "memory-missing": Check(
        "memory", "the node has less memory than `expect.memory_mib`", slow=True
    ),
    "memory-uncorrected": Check(
        "memory", "host memory errors that ECC could not correct", slow=True
    ),
    "leftover-process": Check("nvml", "a process of an ended job cannot be killed"),
    "probe-hung": Check("any", "a probe gave no answer in its time"),
    "unread": Check("any", "something could not be read"),
}
"""Check id -> what it is. A rule is a function in rules.py and a row here."""


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one rule says about one thing."""

    check: str
    severity: Severity
    subject: str
    """`gpu3`, `mlx5_0:1`, a path, or `node`."""
    detail: str
    gpu: int | None = None
    """Index of the GPU that it concerns alone; None: it concerns the whole node."""
    sequence: int | None = None
    """Kernel record number of the evidence, where that is a kernel message."""


def worst(findings: Iterable[Finding]) -> Severity:
    """The highest severity; OK for none."""
    return max((finding.severity for finding in findings), default=Severity.OK)
