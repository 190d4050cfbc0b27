"""
What an Xid asks for: NVIDIA's own catalogue of actions, and what this project makes of them.

The action is NVIDIA's (its Xid catalogue, as far as drivers of 2025; 168, of which it states none,
by what AWS does); a few codes are decided by their text. The severity is ours: an application's own error never costs a node.
"""

import re
from collections.abc import Callable
from enum import Enum

from slurm_resilience.node.checks.check import Heals
from slurm_resilience.node.findings import Severity
from slurm_resilience.node.kernel_lines import NVLINK5, RECOVERY_CHANGED, KernelEvent


class Action(Enum):
    """NVIDIA's word for what to do."""

    RESTART_APP = "restart the application"
    IGNORE = "nothing to do"
    RESET_GPU = "reset the GPU"
    RESTART_BM = "reboot the node"
    RESTART_VM = "restart the virtual machine"
    CHECK_MECHANICALS = "check power and seating"
    UPDATE_SWFW = "update driver or firmware"
    WORKFLOW = "look at what goes with it"
    CHECK_UVM = "look at what the memory manager says beside it"
    NONE_STATED = "NVIDIA states no action"
    UNLISTED = "not in NVIDIA's catalogue"


_CODES: dict[Action, tuple[int | range, ...]] = {
    Action.RESTART_APP: (
        8, 11, 13, 25, 31, 32, range(39, 42), 60, range(68, 73), range(75, 78), 80,
        range(82, 87), 88, 89, 94, range(96, 106), range(126, 136), 139,
    ),
    Action.IGNORE: (
        14, 37, 38, 43, 44, 63, 66, 67, 92, 93, range(106, 109), 121, 137, 141, 152, 153, 157,
        160, 161, 162,
    ),
    Action.RESET_GPU: (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    Action.RESTART_BM: (79, 168),
    Action.RESTART_VM: (151,),
    Action.CHECK_MECHANICALS: (54,),
    Action.UPDATE_SWFW: (78,),
    Action.WORKFLOW: (45, 48, 74, range(144, 151)),
    Action.CHECK_UVM: (159,),
    Action.NONE_STATED: (range(163, 168), range(169, 174)),
}  # fmt: skip

ACTIONS: dict[int, Action] = {
    code: action
    for action, entries in _CODES.items()
    for entry in entries
    for code in (entry if isinstance(entry, range) else (entry,))
}

SEVERITIES: dict[Action, Severity] = {
    Action.RESTART_APP: Severity.OK,
    Action.IGNORE: Severity.OK,
    Action.RESET_GPU: Severity.DRAIN_WHEN_IDLE,
    Action.RESTART_BM: Severity.DRAIN,
    Action.RESTART_VM: Severity.DRAIN_WHEN_IDLE,
    Action.CHECK_MECHANICALS: Severity.DRAIN,
    Action.UPDATE_SWFW: Severity.WARN,
    Action.WORKFLOW: Severity.WARN,
    Action.CHECK_UVM: Severity.WARN,
    Action.NONE_STATED: Severity.WARN,
    Action.UNLISTED: Severity.WARN,
}

CLEAN_UP = 45
REMAP_RECORDED = 63
OFF_THE_BUS = 79
DOUBLE_BIT = (48, 171, 172)
"""171 and 172 say of a 48 whether it hit DRAM or SRAM."""
NO_RESET_HELPS = (64, OFF_THE_BUS)
CANCELLED_BY = {163: 162}
"""162: power smoothing, which 163 called off, is engaged again."""

_CHANGED_TO = re.compile(r"\bto 0x[0-9a-fA-F]+ \((?P<action>[^)]*)\)")
_RECOVERIES: tuple[tuple[str, Severity], ...] = (
    ("reboot", Severity.DRAIN),
    ("reset", Severity.DRAIN_WHEN_IDLE),
    ("p2p", Severity.DRAIN_WHEN_IDLE),
    ("none", Severity.OK),
)


def action_of(code: int) -> Action:
    """NVIDIA's action for an Xid."""
    return ACTIONS.get(code, Action.UNLISTED)


def advice_of(event: KernelEvent) -> str:
    """What helps, in a few words."""
    if event.caused_by is not None:
        return f"clean-up behind Xid {event.caused_by}, whose own line is missing"
    code = event.code or 0
    return _ADVICE.get(code) or action_of(code).value


def heals_of(event: KernelEvent) -> Heals | None:
    """What makes the fault go, where NVIDIA's action or the line itself says so."""
    code = event.code or 0
    if code == RECOVERY_CHANGED:
        word = _recovery_of(event)
        return "reboot" if "reboot" in word else "reset" if "reset" in word else None
    return _HEALS.get(code) or _HEALS_BY.get(action_of(code))


def severity_of(event: KernelEvent) -> Severity:
    """
    How bad one Xid is by itself.

    What else is known of the GPU may settle it: see `rules.kernel.gpus`.
    """
    if event.code is None or event.injected:
        return Severity.OK
    special = _SPECIAL.get(event.code)
    return special(event) if special else SEVERITIES[action_of(event.code)]


def _cleanup(event: KernelEvent) -> Severity:
    # The driver cleans up behind another error. That one decides, unless its line is lost.
    return Severity.OK if event.caused_by is None else Severity.UNKNOWN


def _nvlink(event: KernelEvent) -> Severity:
    return Severity.DRAIN if event.count > 1 else Severity.DRAIN_WHEN_IDLE


def _nvlink5(event: KernelEvent) -> Severity:
    return Severity.DRAIN if event.fatal else Severity.WARN


def _recovery(event: KernelEvent) -> Severity:
    word = _recovery_of(event)
    return next((severity for part, severity in _RECOVERIES if part in word), Severity.WARN)


def _recovery_of(event: KernelEvent) -> str:
    changed = _CHANGED_TO.search(event.text)
    return changed["action"].lower() if changed else ""


def _reset_when_idle(_: KernelEvent) -> Severity:
    return Severity.DRAIN_WHEN_IDLE


def _replace(_: KernelEvent) -> Severity:
    return Severity.DRAIN


_SPECIAL: dict[int, Callable[[KernelEvent], Severity]] = {
    CLEAN_UP: _cleanup,
    # a double-bit error: the memory is wrong until the reset
    **dict.fromkeys(DOUBLE_BIT, _reset_when_idle),
    REMAP_RECORDED: _reset_when_idle,  # NVIDIA: nothing now; the next reset maps the row out
    64: _replace,  # the row could not be remapped
    74: _nvlink,
    **dict.fromkeys(NVLINK5, _nvlink5),
    RECOVERY_CHANGED: _recovery,
}
"""Codes of which the line says more than the catalogue."""

_HEALS_BY: dict[Action, Heals] = {
    Action.RESET_GPU: "reset",
    Action.RESTART_BM: "reboot",
    Action.RESTART_VM: "reboot",
    Action.CHECK_MECHANICALS: "repair",
}
_HEALS: dict[int, Heals] = {
    **dict.fromkeys((*DOUBLE_BIT, REMAP_RECORDED), "reset"),
    64: "repair",
}

_ADVICE: dict[int, str] = {
    CLEAN_UP: "clean-up behind another error",
    **dict.fromkeys(DOUBLE_BIT, "reset the GPU when idle"),
    REMAP_RECORDED: "reset the GPU when idle",
    64: "replace the GPU",
    74: "look at the NVLinks",
    **dict.fromkeys(NVLINK5, "look at the NVLinks"),
    RECOVERY_CHANGED: "as it says",
}
