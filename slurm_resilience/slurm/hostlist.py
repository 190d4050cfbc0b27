"""Slurm's way to write many node names in one: `n[1-3,5],m7` and back to names."""

import re
from collections.abc import Iterator

MOST_NODES = 65536
"""In one range, as in Slurm itself: more is a slip of the keyboard."""

_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGES = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand(text: str) -> tuple[str, ...]:
    """
    The names that *text* stands for, in its order; zeros in front are kept (`n[08-10]`).

    Raises `ValueError` where it is not a host list.
    """
    parts = _PART.findall(text)
    if ",".join(parts) != text:
        raise ValueError(f"not a host list: {text!r}")
    return tuple(name for part in parts for name in _names(part))


def _names(part: str) -> Iterator[str]:
    found = _RANGES.search(part)
    if not found:
        yield part
        return
    before, after = part[: found.start()], part[found.end() :]
    for word in found[1].split(","):
        limits = _RANGE.fullmatch(word)
        if not limits:
            raise ValueError(f"not a host list: {part!r}")
        first, last = limits[1], limits[2] or limits[1]
        if int(last) - int(first) >= MOST_NODES:
            raise ValueError(f"more than {MOST_NODES} nodes: {part!r}")
        for number in range(int(first), int(last) + 1):
            for rest in _names(after):
                yield f"{before}{number:0{len(first)}d}{rest}"
