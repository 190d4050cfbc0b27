"""How a node stands, what it remembers of it, and the closed set of what may be done. Plain values."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from slurm_resilience.node.findings import Finding
from slurm_resilience.node.policy.reason import written
from slurm_resilience.node.policy.strikes import Strike, Thing
from slurm_resilience.node.settings import NodeSettings

Hook = Literal["prolog", "epilog", "health"]


class Standing(msgspec.Struct, frozen=True):
    """How the node stands with Slurm."""

    drained: bool
    reason: str = ""
    restarting: bool = False
    """Slurm boots it, or switches its power: what is wrong with it now says nothing."""
    neighbours: int = 1
    """Nodes that share a partition with it, itself among them."""
    ours: tuple[str, ...] = ()
    """Those of them that we hold drained, the first drained first."""


class History(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node remembers of earlier hooks of the same boot."""

    boot: str
    clean: int = 0
    """Health checks in a row that found nothing to drain for, since our drain."""
    drained_at: int | None = None
    """The newest kernel record known while our drain stands; None: none stands."""
    written_at: int = -1
    """The newest kernel record known when it was written."""
    settled: int = -1
    """Kernel records up to this one no longer count: a drain for them was lifted."""
    struck: tuple[str, ...] = ()
    """What the drain that stands was written for, `<check> <subject>`: one strike each."""


def joined(one: History, other: History) -> History:
    """
    What two hooks remember that ran at the same time, of the same boot.

    Where one of them still knows of a drain that the other has lifted, the next look settles it.
    """
    drains = [mark for mark in (one.drained_at, other.drained_at) if mark is not None]
    return History(
        one.boot,
        clean=min(one.clean, other.clean),
        drained_at=max(drains, default=None),
        written_at=max(one.written_at, other.written_at),
        settled=max(one.settled, other.settled),
        struck=tuple(dict.fromkeys([*one.struck, *other.struck])),
    )


class Drain(msgspec.Struct, frozen=True):
    """Let what runs end, and start nothing new."""

    node: str
    reason: str
    check: str
    subject: str


class Resume(msgspec.Struct, frozen=True):
    """Give a node back that we had drained with this *reason*."""

    node: str
    reason: str


class Keep(msgspec.Struct, frozen=True):
    """Leave the node as it is."""

    node: str
    because: str
    undecided: bool = False
    """Slurm did not say how it stands."""
    tolerated: bool = False
    """It is unfit and has to work on, as too many others are drained."""


Decision = Drain | Resume | Keep


class Visited(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a hook saw on its node, for people who ask later."""

    node: str
    boot: str
    hook: str
    at: float
    """Unix seconds."""
    findings: tuple[Finding, ...]


class Situation(msgspec.Struct, frozen=True):
    """All that a decision is made from."""

    node: str
    hook: Hook
    findings: tuple[Finding, ...]
    standing: Standing | None
    """None: Slurm did not say."""
    history: History
    settings: NodeSettings = NodeSettings()
    restarted: bool = False
    """The NVIDIA driver was loaded again, or the GPU reset, after our drain was written."""
    strikes: tuple[Strike, ...] = ()
    """Earlier drains that still count."""
    things: Mapping[str, Thing] = {}
    """Subject -> what outlasts a reboot of its names."""
    blind: frozenset[str] = frozenset()
    """Probes that gave no answer."""
    sees_gpu: bool = True
    """Whether a GPU was found at all, or the site says that there is none."""

    def thing(self, subject: str) -> Thing:
        """What a subject stands for."""
        return self.things.get(subject) or Thing(written(subject))

    @property
    def observe(self) -> bool:
        """Whether to say only what would be done."""
        return self.settings.mode == "observe"
