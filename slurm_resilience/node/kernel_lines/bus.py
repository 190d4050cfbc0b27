"""Lines of the PCIe bus: AER, DPC, and links that came up narrow."""

import re

from slurm_resilience.node.kernel_lines.event import (
    DRIVER,
    FULL_PCI,
    KernelEvent,
    normalised_pci,
)

_ERROR = re.compile(
    rf"{DRIVER}: (?:AER: )?PCIe Bus Error: severity=(?P<severity>\w+)(?: \((?P<more>[\w-]+)\))?(?P<rest>.*)",
    re.DOTALL,
)
_FATAL = re.compile(
    rf"{DRIVER}: AER: (?:Multiple )?Uncorrect(?:ed|able) \(Fatal\) error (?:message )?received"
    rf"(?:(?: from|:) {FULL_PCI.replace('<pci>', '<source>')})?"
)
_CONTAINED = re.compile(rf"{DRIVER}: DPC: containment event")
_RECOVERED = re.compile(rf"{DRIVER}: AER: [Dd]evice recovery successful")
_REMOVED = re.compile(
    rf"{DRIVER}(?::pcie\d+)?: pciehp: Slot\([\w-]+\): (?:Link Down|Card not present)"
)
_NARROW = re.compile(rf"{DRIVER}: [\d.]+ Gb/s available PCIe bandwidth, limited by .*")


def pcie_error(line: str) -> KernelEvent | None:
    """By the word in the line: Corrected, Non-Fatal or Fatal, in the spelling of each kernel."""
    found = _ERROR.match(line)
    if not found:
        return None
    if found["severity"].startswith("Correct"):
        what = "corrected"
    else:
        what = "fatal" if (found["more"] or "").lower() == "fatal" else "nonfatal"
    text = found[0][found[0].find("PCIe Bus Error") :].strip()
    return KernelEvent("pcie", text, pci=normalised_pci(found["pci"]), what=what)


def pcie_fatal(line: str) -> KernelEvent | None:
    """The head of a fatal error: a device that is gone has no line of its own to follow."""
    found = _FATAL.match(line)
    if not found:
        return None
    pci = normalised_pci(found["source"] or found["pci"])
    text = found[0][found[0].find("AER: ") + 5 :]
    return KernelEvent("pcie", text, pci=pci, what="fatal")


def pcie_contained(line: str) -> KernelEvent | None:
    """Downstream port containment: the port has cut off what is behind it."""
    found = _CONTAINED.match(line)
    return found and KernelEvent(
        "pcie", "DPC: containment event", pci=normalised_pci(found["pci"]), what="fatal"
    )


def pcie_recovered(line: str) -> KernelEvent | None:
    """The driver took its device up again."""
    found = _RECOVERED.match(line)
    return found and KernelEvent(
        "pcie", "device recovery successful", pci=normalised_pci(found["pci"]), what="recovered"
    )


def pcie_removed(line: str) -> KernelEvent | None:
    """A slot lost its card, or its link, while the node runs."""
    found = _REMOVED.match(line)
    return found and KernelEvent(
        "pcie",
        found[0].partition("pciehp: ")[2],
        pci=normalised_pci(found["pci"]),
        what="removed",
    )


def pcie_narrow(line: str) -> KernelEvent | None:
    """Said of each device at boot whose slot is smaller than it could use: mostly by design."""
    found = _NARROW.match(line)
    return found and KernelEvent(
        "pcie", found[0].partition(": ")[2], pci=normalised_pci(found["pci"]), what="narrow"
    )
