"""Every check there is: its id, what it means, its rule, and the reason for that rule."""

from slurm_resilience.node.checks.check import Check
from slurm_resilience.node.checks.dcgm import DCGM_CHECKS
from slurm_resilience.node.checks.driver import DRIVER_CHECKS
from slurm_resilience.node.checks.gpu import GPU_CHECKS
from slurm_resilience.node.checks.gpu_links import GPU_LINK_CHECKS
from slurm_resilience.node.checks.gpu_memory import GPU_MEMORY_CHECKS
from slurm_resilience.node.checks.gpu_running import GPU_RUNNING_CHECKS
from slurm_resilience.node.checks.host import HOST_CHECKS
from slurm_resilience.node.checks.kernel import KERNEL_CHECKS
from slurm_resilience.node.checks.memory import MEMORY_CHECKS
from slurm_resilience.node.checks.network import NETWORK_CHECKS
from slurm_resilience.node.checks.pcie import PCIE_CHECKS
from slurm_resilience.node.checks.power import POWER_CHECKS
from slurm_resilience.node.checks.storage import STORAGE_CHECKS
from slurm_resilience.node.checks.unseen import UNSEEN_CHECKS

__all__ = ["CHECKS", "GROUPS", "Check", "no_check"]

GROUPS: dict[str, dict[str, Check]] = {
    "NVIDIA driver": DRIVER_CHECKS,
    "GPU": GPU_CHECKS,
    "GPU memory": GPU_MEMORY_CHECKS,
    "GPU links": GPU_LINK_CHECKS,
    "GPU heat, power and modes": GPU_RUNNING_CHECKS,
    "Kernel log": KERNEL_CHECKS,
    "Network": NETWORK_CHECKS,
    "PCIe bus": PCIE_CHECKS,
    "File systems and drives": STORAGE_CHECKS,
    "Memory": MEMORY_CHECKS,
    "Processes, clock and services": HOST_CHECKS,
    "Power and cooling": POWER_CHECKS,
    "DCGM": DCGM_CHECKS,
    "What could not be seen": UNSEEN_CHECKS,
}
"""Headings, for people. A check is a function under `rules/` and a row under `checks/`."""

CHECKS: dict[str, Check] = {
    name: check for group in GROUPS.values() for name, check in group.items()
}
"""Check id -> what it is."""


def no_check(name: str) -> str:
    """What to say of a check that there is not."""
    import difflib  # noqa: PLC0415 - only where somebody misspells

    close = difflib.get_close_matches(name, CHECKS)
    meant = f"is it {' or '.join(close)}? " if close else ""
    return f"no check {name!r}; {meant}docs/checks.md lists all"
