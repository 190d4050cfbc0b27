"""What rules say: a finding with a severity."""

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import total_ordering

import msgspec

from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.checks.check import Heals


@total_ordering
class Severity(Enum):
    """How bad a finding is for the node, least first."""

    OK = "ok"
    UNKNOWN = "unknown"
    """It could not be seen whether the node is fit. Never a reason to drain."""
    WARN = "warn"
    DRAIN_WHEN_IDLE = "drain-when-idle"
    """What runs may end; nothing new may start."""
    DRAIN = "drain"

    def __lt__(self, other: "Severity") -> bool:
        order = list(Severity)
        return order.index(self) < order.index(other)


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one rule says about one thing."""

    check: str
    severity: Severity
    subject: str
    """`gpu3`, `mlx5_0:1`, a path, or `node`."""
    detail: str
    gpu: int | None = None
    """Index of the GPU that it concerns alone; None: it concerns the whole node."""
    sequence: int | None = None
    """Kernel record number of the evidence, where that is a kernel message."""
    heals: Heals | None = None
    """What makes just this one go, where its check knows several ways; None: as the check says."""

    @property
    def healed_by(self) -> Heals:
        """What makes it go."""
        return self.heals or CHECKS[self.check].heals

    @property
    def told(self) -> str:
        """In one line, with what helps where new work may not start."""
        helps = self.severity >= Severity.DRAIN_WHEN_IDLE and self.healed_by != "itself"
        line = f"{self.check} {self.subject}: {self.detail}"
        return f"{line}; {self.healed_by}" if helps else line


def worst(findings: Iterable[Finding]) -> Severity:
    """The highest severity; OK for none."""
    return max((finding.severity for finding in findings), default=Severity.OK)


def is_unfit(findings: Sequence[Finding]) -> bool:
    """Whether new work may not start: a reset that waits for idle is due before the next job."""
    return worst(findings) >= Severity.DRAIN_WHEN_IDLE


def is_clean(findings: Sequence[Finding]) -> bool:
    """Whether everything was looked at and nothing speaks against new work."""
    unseen = any(finding.severity is Severity.UNKNOWN for finding in findings)
    return not unseen and not is_unfit(findings)
