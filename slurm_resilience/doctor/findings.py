"""What the doctor says: an advice with the line that helps."""

from typing import Literal

import msgspec

Level = Literal["must", "should", "unseen", "ok"]
"""Does not work so; works better otherwise; could not be looked at from here; as it should be."""


class Advice(msgspec.Struct, frozen=True):
    """What one rule says about one thing."""

    level: Level
    subject: str
    """A key of slurm.conf, or a path."""
    what: str
    line: str = ""
    """What to add to slurm.conf, or to run; empty for nothing."""
