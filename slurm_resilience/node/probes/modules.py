"""Required kernel modules, in sysfs."""

from __future__ import annotations

import os


def read(names: list[str], sysfs: str) -> dict[str, bool]:
    """By name whether each is loaded. Raises OSError where sysfs shows no modules at all."""
    loaded = set(os.listdir(f"{sysfs}/module"))
    return {name: name.replace("-", "_") in loaded for name in names}
