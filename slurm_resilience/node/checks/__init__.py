"""Every check there is: its id, what it means, its rule, and the reason for that rule."""

from slurm_resilience.node.checks.check import Check
from slurm_resilience.node.checks.driver import DRIVER_CHECKS
from slurm_resilience.node.checks.fabric import FABRIC_CHECKS
from slurm_resilience.node.checks.gpu import GPU_CHECKS
from slurm_resilience.node.checks.host import HOST_CHECKS
from slurm_resilience.node.checks.kernel import KERNEL_CHECKS
from slurm_resilience.node.checks.unseen import UNSEEN_CHECKS

__all__ = ["CHECKS", "GROUPS", "Check"]

GROUPS: dict[str, dict[str, Check]] = {
    "NVIDIA driver": DRIVER_CHECKS,
    "GPU": GPU_CHECKS,
    "Kernel log": KERNEL_CHECKS,
    "Network": FABRIC_CHECKS,
    "Disks and memory": HOST_CHECKS,
    "What could not be seen": UNSEEN_CHECKS,
}
"""Headings, for people. A check is a function under `rules/` and a row under `checks/`."""

CHECKS: dict[str, Check] = {
    name: check for group in GROUPS.values() for name, check in group.items()
}
"""Check id -> what it is."""
