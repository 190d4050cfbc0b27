"""The checks of the PCIe bus."""

from slurm_resilience.node.checks.check import Check

PCIE_CHECKS: dict[str, Check] = {
    "pcie-gone": Check(
        probe="pcie",
        meaning="a GPU or network adapter no longer answers on the bus (`rev ff` of lspci); reboot",
        rule="its registers read as ones: drain",
        why="nothing answers at the address; seen without any Xid (shine-cluster issue 171)",
        heals="reboot",
        slow=True,
    ),
    "pcie-narrow": Check(
        probe="pcie",
        meaning="an adapter's PCIe link has fewer lanes or a lower speed than it should; look at its seating",
        rule=(
            "less than `expect.pcie`: drain when idle; without it, one that falls short of its twins "
            "in this node, or of earlier in this boot: warn"
        ),
        why="a slot may be smaller by design; of GPUs, see `gpu-pcie-narrow`",
        heals="repair",
        slow=True,
    ),
    "pcie-error-rate": Check(
        probe="pcie",
        meaning="AER counts errors of a device's PCIe link; look at its seating",
        rule=(
            "fatal ones within an hour: drain when idle; non-fatal ones: warn; corrected ones "
            "faster than `thresholds.pcie_corrected_per_s`: warn"
        ),
        why="the link repeats what it corrects; each costs bandwidth, a storm much of it",
        heals="reboot",
        slow=True,
    ),
}
