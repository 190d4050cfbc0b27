"""How long before the time limit a save has to begin. Pure."""

import math

END_VARIABLE = "SLURM_JOB_END_TIME"
"""Unix seconds at which the time limit is reached. Slurm 23.02 and newer set it, and
`slurm-resilience run` does where Slurm does not."""
SHORTEST_S = 60
"""Slurm looks at time limits every 30 to 60 s."""


def needed_s(save_s: float, step_s: float) -> float:
    """
    Seconds that a save needs before the end, where saves took *save_s* and steps *step_s*.

    Twice the save, since a disk is not always as fast as it was; two steps, since all ranks know
    of it one step after it was said.
    """
    return 2 * save_s + 2 * step_s


def of_signal_s(save_s: float, step_s: float) -> float:
    """The lead to ask of `--signal` for such a save: whole tens of seconds."""
    return math.ceil(max(needed_s(save_s, step_s), SHORTEST_S) / 10) * 10.0
