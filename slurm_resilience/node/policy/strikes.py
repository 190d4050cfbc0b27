"""
How often a fault came back, over reboots, and what is advised then. Pure.

A reset that did not last is followed by a reboot, a reboot that did not last by a new part (gpud
goes the same way after two reboots). Nothing of it is ever run: it is said, in the reason and by
`node explain`. From the third time on the health check gives the node back no more, or a part
that fails every night would get a job every morning.
"""

from collections.abc import Iterable, Mapping

import msgspec

from slurm_resilience.node.checks.check import Heals
from slurm_resilience.node.facts import NodeFacts

MOST = 500
"""Strikes that a node remembers."""
LOOP = 3
"""From that time on a fault takes the node out until a person gives it back."""

_DAY_S = 24 * 3600.0
_ORDINALS = {1: "st", 2: "nd", 3: "rd"}
_TEENS = range(11, 14)


class Thing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a finding is about, by the names that outlast a reboot."""

    subject: str
    """As the finding names it: `gpu3`. Numbers change when a GPU is gone."""
    uuid: str = ""
    pci: str = ""


class Strike(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One drain of ours."""

    check: str
    thing: Thing
    at: float
    """Unix seconds."""


def things_of(facts: NodeFacts) -> Mapping[str, Thing]:
    """Subject -> thing, for GPUs by their number and by their address."""
    known: dict[str, Thing] = {}
    for gpu in (*facts.gone, *(facts.gpus or ())):
        for subject in (f"gpu{gpu.index}", gpu.pci):
            if subject:
                known[subject] = Thing(subject, gpu.uuid or "", gpu.pci or "")
    return known


def is_same(one: Thing, other: Thing) -> bool:
    """
    Whether two names are of one thing.

    The card itself counts before its slot: a new card in the old slot starts anew. Where one of
    the two was read from a dead card, which tells no UUID, the slot has to do.
    """
    if one.uuid and other.uuid:
        return one.uuid == other.uuid
    if one.pci and other.pci:
        return one.pci == other.pci
    return one.subject == other.subject


def times(strikes: Iterable[Strike], check: str, thing: Thing) -> int:
    """How often *thing* was struck for *check*."""
    return sum(strike.check == check and is_same(strike.thing, thing) for strike in strikes)


def recent(strikes: Iterable[Strike], *, now: float, within_s: float) -> tuple[Strike, ...]:
    """Those that still count, oldest first."""
    return tuple(strike for strike in strikes if now - strike.at <= within_s)[-MOST:]


def advice(heals: Heals, nth: int, *, within_s: float) -> str:
    """What helps, the *nth* time that a fault is found; a few words, none where time does."""
    if heals == "itself":
        return ""
    if nth <= 1 or heals == "repair":
        return heals
    what = "reboot" if nth < LOOP else "replace"
    return f"{_ordinal(nth)} time in {max(1, round(within_s / _DAY_S))} days, {what}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in _TEENS else _ORDINALS.get(number % 10, "th")
    return f"{number}{ending}"
