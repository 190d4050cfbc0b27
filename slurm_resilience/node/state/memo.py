"""
Answers that were found fit before, so that the same ones need not be judged again.

The rules are pure: the same answers under the same settings, by the same version and in the same
boot, get the same verdict. On a healthy node the prolog's answers are the same every time. Only
answers without a single finding are kept, so what is worth a word is judged and said each time.
"""

from __future__ import annotations

import time

from slurm_resilience.node.state import kept

NOTHING = b"[]"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_resilience.node.probing import Answers


def is_known(plan: dict[str, Any], boot: str, answers: Answers) -> bool:
    """Whether exactly these answers were found fit, and no slow finding came since."""
    return (
        _may_keep(plan, boot, answers)
        and kept.read(_path(plan, answers)) == _text(plan, boot, answers)
        and slow(plan, boot) == NOTHING
    )


def keep(plan: dict[str, Any], boot: str, answers: Answers) -> str:
    """Remember answers that were judged without a finding; why that could not be done."""
    if not _may_keep(plan, boot, answers):
        return ""
    return kept.write(_path(plan, answers), _text(plan, boot, answers))


def keep_slow(plan: dict[str, Any], boot: str, findings: bytes) -> str:
    """
    Leave for the prolog what only the health check can find: a JSON list of findings.

    Why that could not be done; empty where it was.
    """
    head = f"{time.clock_gettime(time.CLOCK_BOOTTIME)}\n"
    return kept.write_of_boot(f"{plan['state']}/slow-findings", boot, head.encode() + findings)


def slow(plan: dict[str, Any], boot: str) -> bytes:
    """What the last health check left, `[]` where that is nothing, too old, or of another boot."""
    left = kept.of_boot(f"{plan['state']}/slow-findings", boot) or b""
    at, _, findings = left.partition(b"\n")
    try:
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - float(at)
    except ValueError:
        return NOTHING
    return findings if 0 <= age <= plan["verdict_age_s"] else NOTHING


def _may_keep(plan: dict[str, Any], boot: str, answers: Answers) -> bool:
    return bool(plan["stamp"] and boot) and not answers.hung


def _path(plan: dict[str, Any], answers: Answers) -> str:
    kind = "gpu" if "nvml" in answers.raw else "cpu"
    return f"{plan['state']}/fit-{kind}"


def _text(plan: dict[str, Any], boot: str, answers: Answers) -> bytes:
    parts = [f"{plan['stamp']}\n{boot}".encode()]
    parts += [name.encode() + b" " + raw for name, raw in answers.raw.items()]
    return b"\n".join(parts)
