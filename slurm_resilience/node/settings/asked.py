"""Who else is asked about a node: its power, and NVIDIA's DCGM."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

UpsName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_][\w.-]*@[\w.:\[\]-]+$")]


class PowerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who tells of the node's power."""

    ipmi: bool = True
    """Ask the board's management controller for power supplies and fans, where ipmitool and an
    IPMI device are there. False where it is slow: the kernel polls it, at the cost of a core."""
    ups: tuple[UpsName, ...] = ()
    """Uninterruptible power supplies that this node hangs on, as Network UPS Tools name them:
    `rack7@nut.example`. Asked through upsc."""


class DcgmSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What NVIDIA's DCGM is asked, where an administrator wants it. Never in the prolog."""

    health: bool = False
    """Its health watch, in the health check. Watches have to be set (`dcgmi health -s a`)."""
    diag: tuple[Literal["health", "epilog"], ...] = ()
    """Where its quick diagnostic (`dcgmi diag -r 1`) runs. It takes seconds: for the epilog
    `budgets.probe_s` and `epilog_s` have to leave room for that."""
