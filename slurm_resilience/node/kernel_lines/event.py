"""What a kernel event is, and how a PCI address is written."""

from typing import Literal

import msgspec

Kind = Literal[
    "xid", "sxid", "gpu-lost", "gpu-init-failed", "gpu-named", "gpu-reset", "driver-loaded",
    "nic", "link", "hung-task", "oom-kill", "memory", "machine-check", "pcie", "disk",
    "file-system", "nfs",
]  # fmt: skip

PCI = r"(?P<pci>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
"""A PCI address in any spelling, for patterns."""
FULL_PCI = r"(?P<pci>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
"""As the kernel writes it: longer, with what stands around it, than the name of a process may be."""
DRIVER = rf"[\w-]{{1,31}} {FULL_PCI}"
"""How the kernel begins what it says of a PCI device: `pcieport 0000:00:1c.5`."""
NAME = r"(?:\\x[0-9a-f]{2}|[^\\]|\\(?!x[0-9a-f]{2})){0,15}?"
"""What a process calls itself: up to 15 bytes of anything; /dev/kmsg writes some of them as `\\x1b`."""


class KernelEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that the kernel said of a device, once or often."""

    kind: Kind
    text: str
    """The message, of the first time."""
    pci: str | None = None
    """Normalised: `0000:1b:00.0`."""
    device: str | None = None
    """A disk `nvme0n1`, an interface `eth0`, a memory controller `MC1`, a file server."""
    uuid: str | None = None
    """Of a GPU, where the line names it so."""
    code: int | None = None
    """Of an Xid or SXid."""
    what: str = ""
    """Which of the messages of this kind."""
    fatal: bool | None = None
    """What the line itself says of an SXid or NVLink Xid; None where it says nothing."""
    injected: bool = False
    """An NVLink error that somebody injected as a test."""
    caused_by: int | None = None
    """The earlier Xid that the line names as its cause."""
    process: str | None = None
    count: int = 1
    per_hour: int = 1
    """Most of them within one hour."""
    first: int = -1
    """Kernel's record number of the first time."""
    sequence: int = -1
    """Kernel's record number of the last time."""
    at_s: float = 0.0
    """Seconds since boot of the last time."""


def normalised_pci(text: str) -> str:
    """`00000000:1B:00.0`, `1b:00.0` and `0000:1B:00` are all `0000:1b:00.0`."""
    address, _, function = text.lower().partition(".")
    *domain, bus, device = address.split(":")
    return f"{(domain[0] if domain else '0').lstrip('0'):0>4}:{bus}:{device}.{function or 0}"
