"""Lines of host memory and processors: EDAC, machine checks, firmware's error records."""

import re

from slurm_resilience.node.kernel_lines.event import KernelEvent

_EDAC = re.compile(
    r"EDAC (?P<controller>MC\d+): (?P<count>\d+) (?P<word>CE|UE) (?:[^\[\]]{1,200}? )?on \S.*"
)
_POISON = re.compile(r"Memory failure: 0x[0-9a-f]+: .*")
_STATUS = re.compile(
    r"(?:(?:mce: )?\[Hardware Error\]: +|EDAC [\w-]+ MC\d+: )"
    r"(?P<text>CPU ?(?P<cpu>\d+): Machine Check(?: Exception| Event)?: [0-9a-f]+ Bank (?P<bank>\d+): "
    r"(?P<status>[0-9a-f]{16})\b)"
)
_VERDICT = re.compile(
    r"(?:mce: )?(?:\{\d{1,9}\})?\[Hardware Error\]: +(?P<text>(?P<corrected>Corrected error|It has been corrected)"
    r"|(?P<deferred>Deferred error)|(?P<uncorrected>Uncorrected, )"
    r"|event severity: (?P<severity>\w+))(?P<rest>.*)"
)
_UNCORRECTED = 1 << 61
"""Of a machine check's status word."""


def edac(line: str) -> KernelEvent | None:
    """What a memory controller counted; a controller's name, for which a label stands behind."""
    found = _EDAC.match(line)
    if not found:
        return None
    what = "corrected" if found["word"] == "CE" else "uncorrected"
    return KernelEvent("memory", found[0].strip(), device=found["controller"], what=what)


def poisoned(line: str) -> KernelEvent | None:
    """A page that the kernel took away because its memory is wrong."""
    found = _POISON.match(line)
    if not found:
        return None
    text = found[0].strip()
    what = "recovered" if text.endswith(": Recovered") else "uncorrected"
    return KernelEvent("memory", text, device="page", what=what)


def machine_check(line: str) -> KernelEvent | None:
    """
    By its status or by the word that says how bad it is.

    The other lines of a record (its head, registers, addresses) say nothing of that: a corrected
    event has the same head.
    """
    status = _STATUS.match(line)
    if status:
        uncorrected = int(status["status"], 16) & _UNCORRECTED
        what = "uncorrected" if uncorrected else "corrected"
        device = f"CPU {status['cpu']} bank {status['bank']}"
        return KernelEvent("machine-check", status["text"].strip(), device=device, what=what)
    found = _VERDICT.match(line)
    if not found:
        return None
    if found["severity"]:
        # "recoverable" may be a PCIe error that its driver dealt with.
        words = {"corrected": "corrected", "info": "corrected", "fatal": "uncorrected"}
        what = words.get(found["severity"], "deferred")
    elif found["uncorrected"]:
        what = "uncorrected"
    else:
        what = "deferred" if found["deferred"] else "corrected"
    return KernelEvent("machine-check", (found["text"] + found["rest"]).strip(), what=what)
