"""
The reason on a node that we drained:
`slurm-resilience: <check> <subject>: <detail>[; <advice>] [boot <id>]`.

By its first word we know our own drains; by the check what it was for, also in a later version;
by the boot whether the node was restarted since. A check keeps its id for good: a drain for an id
that no check has here is ours, and only a person lifts it. Pure.
"""

import re

import msgspec

from slurm_resilience.node.findings import Finding

OURS = "slurm-resilience: "
MOST_CHARACTERS = 240
"""Slurm takes more; `sinfo -R` and people do not."""
MOST_SUBJECT = 60

_REASON = re.compile(
    rf"{OURS}(?P<check>[a-z0-9-]+) (?P<subject>\S+?): (?P<detail>.*?)"
    r"(?:; (?P<advice>(?:\d+\w\w time in \d+ days, )?(?:reset|reboot|repair|replace)))?"
    r"(?: \[boot (?P<boot>\w+)\])?"
)


class Reason(msgspec.Struct, frozen=True):
    """A reason of ours, taken apart."""

    check: str
    subject: str
    detail: str
    advice: str = ""
    """What helps, in a few words."""
    boot: str = ""
    """The short boot id, empty where the text has none."""


def is_ours(text: str) -> bool:
    """Whether this project wrote a reason; an empty one is nobody's."""
    return text.startswith(OURS)


def short(boot_id: str) -> str:
    """The part of a boot id that stands in a reason."""
    return boot_id.partition("-")[0]


def reason_of(finding: Finding, boot_id: str, advice: str = "") -> str:
    """What an administrator sees in `sinfo -R`."""
    detail = _plain(finding.detail) or "-"
    subject = written(finding.subject)
    tail = f"; {advice}" if advice else ""
    tail += f" [boot {short(boot_id)}]" if boot_id else ""
    text = f"{OURS}{finding.check} {subject}: {detail}"
    return text[: MOST_CHARACTERS - len(tail)].rstrip() + tail


def written(subject: str) -> str:
    """A subject as a reason holds it: sensors and paths may have spaces in their names."""
    return _plain(subject).replace(" ", "_")[:MOST_SUBJECT] or "node"


def _plain(text: str) -> str:
    """One line that scontrol takes as it is: kernel messages and paths hold anything."""
    ascii_only = text.encode("ascii", "replace").decode()
    return re.sub(r"[^!#-&(-\[\]-~]+", " ", ascii_only).strip()


def parse_reason(text: str) -> Reason | None:
    """A reason of ours, taken apart; None for anybody else's."""
    found = _REASON.fullmatch(text.strip())
    return Reason(**found.groupdict(default="")) if found else None
