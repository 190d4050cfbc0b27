"""When to save. Pure: steps and clock come in as arguments."""

from collections.abc import Mapping
from typing import NamedTuple

END_VARIABLE = "SLURM_JOB_END_TIME"
"""Unix seconds at which the time limit is reached; Slurm 23.02 and newer set it."""
MOST_DIGITS = 12


class Due(NamedTuple):
    """Every so many steps or seconds since the last save, whichever is first; None: never by it."""

    every_steps: int | None
    every_s: float | None

    def by_steps(self, step: int, last: int) -> bool:
        """Whether *step* is enough steps after *last*, the step last saved."""
        return self.every_steps is not None and step - last >= self.every_steps

    def by_clock(self, now: float, since: float) -> bool:
        """Whether enough seconds have gone by at *now*, the last save having begun at *since*."""
        return self.every_s is not None and now - since >= self.every_s


def time_limit(environment: Mapping[str, str]) -> float | None:
    """When the job's time limit is reached, in Unix seconds; None where Slurm does not say."""
    text = environment.get(END_VARIABLE, "")
    return float(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def is_late(now: float, ends_at: float, need_s: float) -> bool:
    """Whether what is left until *ends_at* is just what a save needs."""
    return ends_at - need_s <= now < ends_at
