"""
The state of a node in any spelling of Slurm's, 16.05 to 26.05 -> base state and flags. Pure.

scontrol joins flags by `+` and marks them by suffixes (`DOWN*+DRAIN`), sinfo shortens (`mix-`,
`drng`), JSON lists words; 21.08 renamed some. NHC skips nodes in `mix-` to this day (mej/nhc
issue 170): whoever takes the text as it is misses what a version adds to it.
"""

from collections.abc import Iterable

BASES = frozenset({"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE"})

SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}
"""What sinfo and scontrol hang on to a state."""

_LONG: dict[str, tuple[str, ...]] = {
    "ALLOC": ("ALLOCATED",),
    "BLOCK": ("BLOCKED",),
    "BOOT": ("REBOOT_ISSUED",),
    "COMP": ("COMPLETING",),
    "DRAINED": ("IDLE", "DRAIN"),
    "DRAINING": ("ALLOCATED", "DRAIN"),
    "DRNG": ("ALLOCATED", "DRAIN"),
    "FAILING": ("ALLOCATED", "FAIL"),
    "FAILG": ("ALLOCATED", "FAIL"),
    "FUTR": ("FUTURE",),
    "MAINT": ("MAINTENANCE",),
    "MIX": ("MIXED",),
    "NO_RESPOND": ("NOT_RESPONDING",),
    "PLND": ("PLANNED",),
    "POWER": ("POWERED_DOWN",),
    "POWER_UP": ("POWERING_UP",),
    "POW_DN": ("POWERING_DOWN",),
    "POW_UP": ("POWERING_UP",),
    "REBOOT": ("REBOOT_REQUESTED",),
    "RESV": ("RESERVED",),
    "UNK": ("UNKNOWN",),
}
"""A short, joined or earlier spelling -> the words of today."""


def node_state(words: Iterable[str]) -> tuple[str, frozenset[str]]:
    """Base state (UNKNOWN where none is told) and flags."""
    told: list[str] = []
    for word in "+".join(words).upper().split("+"):
        name = word.rstrip("".join(SUFFIXES))
        told += _LONG.get(name, (name,) if name else ())
        told += [SUFFIXES[mark] for mark in word[len(name) :]]
    base = next((word for word in told if word in BASES), "UNKNOWN")
    return base, frozenset(told) - BASES
