"""The kernel's RAID arrays, as /proc/mdstat shows them."""

from __future__ import annotations

import re

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any

_HEAD = re.compile(r"^(md\S*) : (\w+)((?: \([\w-]+\))*)\s*(.*)$")
_MEMBERS = re.compile(r"\[(\d+)/(\d+)\]")
_FAULTY = re.compile(r"(\S+)\[\d+\](?:\([A-Z]\))*\(F\)")


def read(proc: str) -> list[dict[str, Any]]:
    """As `facts.RaidFacts`; empty where the kernel has no RAID."""
    try:
        with open(f"{proc}/mdstat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        return []
    arrays: list[dict[str, Any]] = []
    for line in text.splitlines():
        if head := _HEAD.match(line):
            arrays.append(_array(head))
        elif arrays and line.startswith(" "):
            _add(arrays[-1], line)
    # Metadata of a hardware-assisted RAID shows as an array that is never started.
    return [array for array in arrays if not array.pop("container")]


def _array(head: re.Match[str]) -> dict[str, Any]:
    name, state, _, rest = head.groups()
    words = rest.split()
    has_level = bool(words) and "[" not in words[0]
    return {
        "name": name,
        "state": state,
        "level": words[0] if has_level else "",
        "failed": _FAULTY.findall(rest),
        "missing": 0,
        "recovering": False,
        "container": False,
    }


def _add(array: dict[str, Any], line: str) -> None:
    if members := _MEMBERS.search(line):
        wanted, working = map(int, members.groups())
        array["missing"] = max(0, wanted - working)
    if "super external:" in line and "external:/" not in line:
        array["container"] = array["state"] == "inactive"
    if any(word in line for word in ("recovery =", "resync =", "reshape =")):
        array["recovering"] = True
