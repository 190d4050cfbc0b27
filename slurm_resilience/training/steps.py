"""The number that a training gives to each step: what counts as one."""

import operator
from typing import SupportsIndex

from slurm_resilience.errors import UsageError
from slurm_resilience.plain import plain

MOST = 1 << 63
"""The heartbeat has eight bytes for it."""


def whole(step: SupportsIndex) -> int:
    """
    *step* as a number of Python's own: numpy's and torch's are whole as well, and no manifest takes them.

    Raises `UsageError` where it is none.
    """
    try:
        number = -1 if isinstance(step, bool) else int(operator.index(step))
    except (TypeError, RuntimeError, ValueError):  # a tensor of several elements: not TypeError
        number = -1
    if not 0 <= number < MOST:
        raise UsageError(
            f"Run: step({plain(repr(step), most=80)}): a step is a whole number, 0 or more"
        )
    return number
