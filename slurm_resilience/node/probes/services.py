"""Required systemd units, by `systemctl show`: unlike is-active it tells what is not installed."""

from __future__ import annotations

from slurm_resilience.node.probes import tool

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any

_FIELDS = {"LoadState": "load", "ActiveState": "active", "SubState": "sub"}


def read(names: list[str], tools: list[str]) -> list[dict[str, Any]]:
    """As `facts.ServiceFacts`. Raises OSError where systemd cannot be asked."""
    systemctl = tool.found("systemctl", tools)
    if systemctl is None:
        raise OSError("systemctl is not installed, and expect.services asks for it")
    text = tool.output([systemctl, "show", f"--property={','.join(_FIELDS)}", "--", *names])
    units = [_unit(block) for block in text.strip().split("\n\n")]
    if len(units) != len(names) or any("active" not in unit for unit in units):
        raise OSError(f"{systemctl} show told of {len(units)} units, not of {len(names)}")
    return [{"name": name, **unit} for name, unit in zip(names, units, strict=True)]


def _unit(block: str) -> dict[str, Any]:
    pairs = (line.partition("=") for line in block.splitlines())
    return {_FIELDS[key]: value for key, _, value in pairs if key in _FIELDS}
