"""What a hook says: to stderr, which Slurm may keep, and to syslog, which somebody reads."""

from __future__ import annotations

import sys
import syslog

from slurm_resilience.plain import plain


def say(text: str, *, grave: bool = False) -> None:
    """One line."""
    line = plain(" ".join(text.split()))
    print(f"slurm-resilience: {line}", file=sys.stderr, flush=True)  # noqa: T201
    syslog.syslog(
        syslog.LOG_DAEMON | (syslog.LOG_ERR if grave else syslog.LOG_INFO),
        f"slurm-resilience: {line}",
    )
