"""What a check is."""

from typing import Literal

import msgspec

Heals = Literal["itself", "reset", "reboot", "repair"]
"""
What makes a fault go: time, a GPU reset or driver reload, a restart of the node, or hands.

A finding that heals by `repair` is never given back by the health check.
"""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is looked at."""

    probe: str
    """The probe whose facts decide."""
    meaning: str
    """What a finding of it means, and what helps."""
    rule: str
    """When it is found, and how bad it is."""
    why: str
    """Why the threshold is what it is, and where that comes from."""
    heals: Heals = "reset"
    """Unless the finding itself knows better, see `Finding.heals`."""
    slow: bool = False
    """Only the health check looks; the prolog takes its word."""
    of_gpus: bool = False
    """Of no concern to a job without GPUs."""
    comes_up: bool = False
    """It may still be on its way for some time after boot, while slurmd is up already."""
    on_request: bool = False
    """Advice for who asks with `check`: no hook says it."""
