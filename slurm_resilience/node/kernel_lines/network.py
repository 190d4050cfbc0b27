"""Lines of network adapters: mlx5, and interfaces that lose their link."""

import re

from slurm_resilience.node.kernel_lines.event import FULL_PCI, KernelEvent, normalised_pci

_NIC_LINE = re.compile(
    rf"mlx5_core {FULL_PCI}(?: (?P<name>[\w.@-]{{1,31}}))?: (?P<rest>.+)", re.DOTALL
)
_WATCHDOG = re.compile(
    r"NETDEV WATCHDOG: (?P<name>[\w.@-]{1,31}) \(mlx5_core\): (?P<rest>.*)", re.DOTALL
)
_MESSAGES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    # The function that says it, where it names itself: `poll_health:825:(pid 0): `.
    (what, re.compile(rf"(?:\w{{1,64}}:\d+:(?:\(pid \d+\):)? )?(?:{pattern})"))
    for what, pattern in (
        ("command-timeout", r"[A-Z_]+\(0x[0-9a-f]+\) timeout\. Will cause a leak"),
        ("health-compromised", r"device's health compromised|Fatal error \d+ detected"),
        (
            "overheated",
            r"Port module event(?:\[error\])?: module \d+,[\w ,/]* High Temperature|High temperature on sensors",
        ),
        ("unplugged", r"Port module event(?:\[error\])?: module \d+, Cable unplugged"),
        ("cable-error", r"Port module event\[error\]"),
        ("low-power", r"Detected insufficient power on the PCIe slot"),
        (
            "transmit-timeout",
            r"NETDEV WATCHDOG: |(?:CPU: \d+: )?transmit queue \d+ timed out|TX timeout detected|RX timeout on channel",
        ),
    )
)
MORE_OF_A_TIMEOUT = ("TX timeout detected", "RX timeout on channel")
"""What follows a watchdog's line within moments; where that is said only once, it stands alone."""

_NAME = r"(?!ata\d)[a-z][\w.@-]{0,31}"
_DOWN = re.compile(
    rf"(?:[\w-]{{1,31}} {FULL_PCI}:? )?(?:[\w-]{{1,31}}: ){{0,2}}?"
    rf"(?P<text>(?P<name>{_NAME})(?:: (?:NIC )?| NIC )Link (?:is )?Down\b)",
    re.IGNORECASE,
)
_BOND = re.compile(
    r"(?:bonding: )?[\w.@-]{1,31}: (?:\(slave (?P<slave>[\w.@-]{1,31})\): )?"
    r"(?P<text>link status definitely down(?: for interface (?P<name>[\w.@-]{1,31}))?)"
)
_CARRIER = re.compile(
    rf"(?:systemd-networkd(?:\[\d+\])?: )?(?P<text>(?P<name>{_NAME}): Lost carrier)"
)


def nic(line: str) -> KernelEvent | None:
    """What mlx5 says of its adapter, where that is a fault."""
    adapter = _NIC_LINE.match(line) or _WATCHDOG.match(line)
    if adapter is None:
        return None
    what = next((what for what, pattern in _MESSAGES if pattern.match(adapter["rest"])), None)
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
    """An interface that lost its link, as drivers and bonding say it."""
    found = _DOWN.match(line) or _BOND.match(line)
    if not found:
        return None
    name = found["name"] or found.groupdict().get("slave")
    return KernelEvent("link", found["text"], device=name, what="down")


def carrier(line: str) -> KernelEvent | None:
    """The same as systemd-networkd says it, beside the kernel."""
    found = _CARRIER.match(line)
    return found and KernelEvent("link", found["text"], device=found["name"], what="down")
