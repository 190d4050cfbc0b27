"""Lines of NVIDIA's drivers: Xid, SXid, a GPU lost without either, a driver load, a GPU reset."""

import re

from slurm_resilience.node.kernel_lines.event import PCI, KernelEvent, normalised_pci

NVLINK5 = range(144, 151)
"""Xids of the fifth NVLink generation: how bad they are stands in the line."""

RECOVERY_CHANGED = 154
"""The Xid by which the driver says what a GPU needs now."""

LOST = "fallen off the bus"

_XID = re.compile(
    rf"NVRM: Xid \((?:PCI:)?{PCI}(?: [\w:-]{{1,40}})?\): (?P<code>\d{{1,6}})\b,? *(?P<rest>.*)",
    re.DOTALL,
)
_SXID = re.compile(
    rf"nvidia-nvswitch\d{{1,4}}: SXid \(PCI:{PCI}\): (?P<code>\d{{1,9}}), (?P<rest>.*)",
    re.DOTALL,
)
_WHO = re.compile(r"pid='?(?P<pid>[^',]*)'?(?:, name=(?P<name>[^,]*))?(?:, |$)")
_CAUSE = re.compile(r"caused by previous Xid (\d{1,6})\b")
_NVLINK = re.compile(r"\b(?P<word>Non-?fatal|Fatal) XC\d+ i(?P<injected>\d+)", re.IGNORECASE)
_SWITCH = re.compile(r"(?P<word>Non-?fatal|Fatal)\b", re.IGNORECASE)
_GPU = re.compile(rf"NVRM: (?:The NVIDIA )?GPU {PCI}\b")
_LOST = re.compile(
    rf"NVRM: (?:GPU {PCI}: GPU has|The NVIDIA GPU .{{0,200}}?) ?{LOST}", re.DOTALL
)
_NOT_STARTED = re.compile(rf"NVRM: GPU {PCI}: RmInitAdapter failed")
_NAMED = re.compile(rf"NVRM: GPU at PCI:{PCI}: (?P<uuid>GPU-[0-9a-f-]+)")
_RESET = re.compile(
    r"(?:[\w.-]{1,64}(?:\[\d+\])?: )?(?P<text>GPU reset executed: (?P<uuid>GPU-[0-9a-f-]+)(?:, success: (?P<done>\w+))?)"
)
_LOADED = "NVRM: loading NVIDIA UNIX"
# lspci shows the revision of a device that no longer answers as all ones.
_ALL_ONES = re.compile(
    rf"{PCI} (?:VGA compatible|3D|Display) controller(?: \[[0-9a-f]{{4}}\])?: NVIDIA .*\(rev ff\)"
)


def xid(line: str) -> KernelEvent | None:
    """With or without process, in all spellings of the address."""
    found = _XID.match(line)
    if not found:
        return None
    code, rest = int(found["code"]), found["rest"]
    who = _WHO.match(rest)
    text = " ".join((rest[who.end() :] if who else rest).split())
    cause = _CAUSE.search(text)
    link = _NVLINK.search(text) if code in NVLINK5 else None
    name = who["name"] if who else None
    return KernelEvent(
        "xid",
        text,
        pci=normalised_pci(found["pci"]),
        code=code,
        fatal=link and link["word"].lower() == "fatal",
        injected=bool(link and link["injected"] == "1"),
        caused_by=int(cause[1]) if cause else None,
        process=None if name in {None, "<unknown>"} else name,
    )


def sxid(line: str) -> KernelEvent | None:
    """An NVSwitch's error. A second line carries registers; it belongs to the one before it."""
    found = _SXID.match(line)
    if not found or found["rest"].startswith("Data {"):
        return None
    pci, code, text = normalised_pci(found["pci"]), int(found["code"]), found["rest"].strip()
    word = _SWITCH.match(text)
    fatal = None if word is None else word["word"].lower() == "fatal"
    return KernelEvent("sxid", text, pci=pci, code=code, fatal=fatal)


def gpu_lost(line: str) -> KernelEvent | None:
    """A lost GPU in one line; see `announced` for the message of several."""
    gpu = announced(line) if _LOST.match(line) else None
    return KernelEvent("gpu-lost", f"GPU has {LOST}", pci=gpu) if gpu else None


def announced(line: str) -> str | None:
    """The GPU that a line of the driver speaks of."""
    gpu = _GPU.match(line)
    return normalised_pci(gpu["pci"]) if gpu else None


def gpu_answers_ones(line: str) -> KernelEvent | None:
    """A line of lspci, not of the kernel; people paste both."""
    gpu = _ALL_ONES.match(line)
    if not gpu:
        return None
    text = "every register reads as ones (rev ff)"
    return KernelEvent("gpu-lost", text, pci=normalised_pci(gpu["pci"]))


def gpu_init_failed(line: str) -> KernelEvent | None:
    """The driver cannot start a GPU; it tries again each time that somebody asks."""
    found = _NOT_STARTED.match(line)
    if not found:
        return None
    return KernelEvent("gpu-init-failed", line.strip(), pci=normalised_pci(found["pci"]))


def gpu_named(line: str) -> KernelEvent | None:
    """Which UUID has which address, as the driver says before a GPU's first Xid."""
    found = _NAMED.match(line)
    return found and KernelEvent(
        "gpu-named", found["uuid"], pci=normalised_pci(found["pci"]), uuid=found["uuid"]
    )


def gpu_reset(line: str) -> KernelEvent | None:
    """What NVIDIA's own reset job leaves in the log; the driver itself says nothing of a reset."""
    found = _RESET.match(line)
    if not found or found["done"] in {"false", "False"}:
        return None
    return KernelEvent("gpu-reset", found["text"], uuid=found["uuid"])


def driver_loaded(line: str) -> KernelEvent | None:
    """Loading the driver resets every GPU."""
    return KernelEvent("driver-loaded", line.strip()) if line.startswith(_LOADED) else None
