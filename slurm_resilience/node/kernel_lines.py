"""
Kernel-log lines -> events: Xid and SXid, a GPU lost without either, mlx5 adapters, hung tasks.

Pure. Lines may come from /dev/kmsg, `dmesg`, journalctl or a syslog file; what stands before the
message does not matter. Lines that tell the same thing of the same device are one event with a
count, so that a storm of one Xid per channel stays one event.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Kind = Literal["xid", "sxid", "gpu-lost", "driver-loaded", "nic", "hung-task"]


class KernelEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that the kernel said of a device, once or often."""

    kind: Kind
    text: str
    """The message, of the first time."""
    pci: str | None = None
    """A GPU's or switch's `0000:1b:00`, a network adapter's `0000:41:00.1`."""
    code: int | None = None
    """Of an Xid or SXid."""
    what: str = ""
    """Which of the messages that `_NIC` knows."""
    fatal: bool | None = None
    """What the line itself says of an SXid or NVLink Xid; None where it says nothing."""
    injected: bool = False
    """An NVLink error that somebody injected as a test."""
    caused_by: int | None = None
    """The earlier Xid that the line names as its cause."""
    process: str | None = None
    count: int = 1
    sequence: int = -1
    """Kernel's record number of the last time."""
    at_s: float = 0.0
    """Seconds since boot of the last time."""


_PCI = r"(?P<pci>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?"
_XID = re.compile(
    rf"NVRM: Xid \((?:PCI:)?{_PCI}[^)]*\): (?P<code>\d+),? *(?P<rest>.*)", re.DOTALL
)
_SXID = re.compile(rf"SXid \(PCI:{_PCI}\): (?P<code>\d+), (?P<rest>.*)", re.DOTALL)
_WHO = re.compile(r"pid='?(?P<pid>[^',]*)'?(?:, name=(?P<name>[^,]*))?(?:, |$)")
_CAUSE = re.compile(r"caused by previous Xid (\d+)")
_SEVERITY = re.compile(r"\b(Non-?fatal|Fatal)\b", re.IGNORECASE)
_INJECTED = re.compile(r"\bXC\d+ i1\b")
_GPU = re.compile(rf"NVRM:.*?\bGPU {_PCI}")
_LOST = "fallen off the bus"
_LOADED = "NVRM: loading NVIDIA UNIX"
_HUNG_TASK = re.compile(r"task (?P<name>.+):\d+ blocked for more than \d+ seconds")
_NIC_LINE = re.compile(
    r"(?:mlx5_core (?P<pci>[0-9a-fA-F:]+\.[0-7])[^:]*: (?=.)|(?=NETDEV WATCHDOG: \S+ \(mlx5_core))"
    r"(?P<rest>.*)",
    re.DOTALL,
)
_NIC: tuple[tuple[str, str], ...] = (
    ("command-timeout", r"[A-Z_]+\(0x[0-9a-f]+\) timeout\. Will cause a leak"),
    ("health-compromised", r"device's health compromised"),
    ("overheated", r"Port module event.*High Temperature"),
    ("unplugged", r"Port module event.*Cable unplugged"),
    ("low-power", r"Detected insufficient power on the PCIe slot"),
    ("transmit-timeout", r"NETDEV WATCHDOG"),
)
NVLINK5 = range(144, 151)
"""Xids of the fifth NVLink generation: how bad they are stands in the line."""


def parse_records(records: Iterable[Sequence[object]]) -> tuple[KernelEvent, ...]:
    """Events from records of (sequence number, microseconds since boot, text), oldest first."""
    found: dict[tuple[object, ...], KernelEvent] = {}
    announced: str | None = None  # the GPU of a message whose other lines follow
    for sequence, microseconds, text in records:
        event = parse_line(str(text))
        if event is None:
            gpu = _GPU.search(str(text))
            if gpu:
                announced = normalised_pci(gpu["pci"])
            elif _LOST in str(text) and announced:
                event = KernelEvent("gpu-lost", f"GPU has {_LOST}", pci=announced)
        if event is None:
            continue
        key = _sameness(event)
        before = found.pop(key, None)  # the latest goes last
        found[key] = msgspec.structs.replace(
            before or event,
            count=before.count + 1 if before else 1,
            sequence=int(str(sequence)),
            at_s=int(str(microseconds)) / 1e6,
        )
    return tuple(found.values())


def parse_line(line: str) -> KernelEvent | None:
    """The event of one line, None where it tells of none that is known here."""
    return next(filter(None, (parse(line) for parse in _PARSERS)), None)


def normalised_pci(text: str) -> str:
    """`00000000:1B:00.0`, `1b:00.0` and `0000:1B:00` are all `0000:1b:00`."""
    *domain, bus, device = text.lower().partition(".")[0].split(":")
    return f"{(domain[0] if domain else '0').lstrip('0'):0>4}:{bus}:{device}"


def _xid(line: str) -> KernelEvent | None:
    found = _XID.search(line)
    if not found:
        return None
    code, rest = int(found["code"]), found["rest"]
    who = _WHO.match(rest)
    text = " ".join((rest[who.end() :] if who else rest).split())
    cause = _CAUSE.search(text)
    name = who["name"] if who else None
    return KernelEvent(
        "xid",
        text,
        pci=normalised_pci(found["pci"]),
        code=code,
        fatal=_is_fatal(text) if code in NVLINK5 else None,
        injected=code in NVLINK5 and bool(_INJECTED.search(text)),
        caused_by=int(cause[1]) if cause else None,
        process=None if name in {None, "<unknown>"} else name,
    )


def _sxid(line: str) -> KernelEvent | None:
    found = _SXID.search(line)
    # A second line carries registers; it belongs to the one before it.
    if not found or found["rest"].startswith("Data {"):
        return None
    pci, code, text = normalised_pci(found["pci"]), int(found["code"]), found["rest"].strip()
    return KernelEvent("sxid", text, pci=pci, code=code, fatal=_is_fatal(text))


def _gpu_lost(line: str) -> KernelEvent | None:
    gpu = _GPU.search(line) if _LOST in line else None
    return gpu and KernelEvent("gpu-lost", f"GPU has {_LOST}", pci=normalised_pci(gpu["pci"]))


def _driver_loaded(line: str) -> KernelEvent | None:
    at = line.find(_LOADED)
    return None if at < 0 else KernelEvent("driver-loaded", line[at:].strip())


def _hung_task(line: str) -> KernelEvent | None:
    task = _HUNG_TASK.search(line)
    return task and KernelEvent("hung-task", task[0], process=task["name"])


def _nic(line: str) -> KernelEvent | None:
    adapter = _NIC_LINE.search(line)
    what = next((what for what, pattern in _NIC if re.search(pattern, line)), None)
    if adapter is None or what is None:
        return None
    pci = adapter["pci"]
    return KernelEvent("nic", adapter["rest"].strip(), pci=pci and pci.lower(), what=what)


_PARSERS = (_xid, _sxid, _gpu_lost, _driver_loaded, _hung_task, _nic)


def _is_fatal(text: str) -> bool | None:
    word = _SEVERITY.search(text)
    return None if word is None else word[1].lower() == "fatal"


def _sameness(event: KernelEvent) -> tuple[object, ...]:
    # An Xid 154 announces a state, so each text counts for itself.
    own_text = event.text if event.code == 154 else ""  # noqa: PLR2004 - see xid.py
    return (
        event.kind, event.pci, event.code, event.what, event.fatal, event.injected,
        event.caused_by, event.process if event.kind == "hung-task" else "", own_text,
    )  # fmt: skip
