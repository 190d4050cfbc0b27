"""Lines of network adapters: mlx5, and interfaces that lose their link."""

import re

from slurm_resilience.node.kernel_lines.event import KernelEvent, normalised_pci

_NIC_LINE = re.compile(
    r"mlx5_core (?P<pci>[0-9a-fA-F:]+\.[0-7])(?: (?P<name>[^\s:]+))?: (?P<rest>.+)", re.DOTALL
)
_WATCHDOG = re.compile(r"NETDEV WATCHDOG: (?P<name>\S+) \(mlx5_core\): (?P<rest>.*)", re.DOTALL)
_MESSAGES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (what, re.compile(pattern))
    for what, pattern in (
        ("command-timeout", r"[A-Z_]+\(0x[0-9a-f]+\) timeout\. Will cause a leak"),
        ("health-compromised", r"device's health compromised|Fatal error \d+ detected"),
        ("overheated", r"Port module event.*High Temperature|High temperature on sensors"),
        ("unplugged", r"Port module event.*Cable unplugged"),
        ("cable-error", r"Port module event\[error\]"),
        ("low-power", r"Detected insufficient power on the PCIe slot"),
        ("transmit-timeout", r"NETDEV WATCHDOG|TX timeout detected|RX timeout on channel"),
    )
)
MORE_OF_A_TIMEOUT = ("TX timeout detected", "RX timeout on channel")
"""What follows a watchdog's line within moments; where that is said only once, it stands alone."""

_DOWN = re.compile(
    r"\b(?!ata\d)(?P<name>[a-z][\w.@-]{0,31})(?:: (?:NIC )?| NIC )Link (?:is )?Down\b"
    r"|\b(?P<daemon>[a-z][\w.@-]{0,31}): Lost carrier"
    r"|definitely down for interface (?P<bonded>[\w.@-]+)",
    re.IGNORECASE,
)


def nic(line: str) -> KernelEvent | None:
    """What mlx5 says of its adapter, where that is a fault."""
    adapter = _NIC_LINE.search(line) or _WATCHDOG.search(line)
    if adapter is None:
        return None
    what = next((what for what, pattern in _MESSAGES if pattern.search(line)), None)
    if what is None:
        return None
    found = adapter.groupdict()
    pci, text = found.get("pci"), found["rest"].strip()
    return KernelEvent(
        "nic",
        text,
        pci=normalised_pci(pci) if pci and pci.count(":") in {1, 2} else None,
        device=found["name"] if what == "transmit-timeout" or not pci else None,
        what=what,
    )


def link(line: str) -> KernelEvent | None:
    """An interface that lost its link, as drivers, bonding and systemd-networkd say it."""
    found = _DOWN.search(line)
    if not found:
        return None
    name = found["name"] or found["daemon"] or found["bonded"]
    return KernelEvent("link", found[0], device=name, what="down")
