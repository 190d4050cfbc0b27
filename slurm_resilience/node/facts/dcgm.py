"""What DCGM found."""

from typing import Literal

import msgspec


class DcgmFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One result that is not a pass, of its health watch or of its diagnostic."""

    source: Literal["health", "diag"]
    test: str
    """`Persistence Mode`, `PCIe system`, …"""
    status: Literal["warn", "fail"]
    entity: str = ""
    """`gpu3`, by DCGM's own number; empty: all, or not told."""
    says: str = ""
    configuration: bool = False
    """DCGM itself calls it a matter of configuration (its error severity 5)."""
