"""Slurm's way to write many node names in one: `n[1-3,5],m7` and back to names."""

import re
from collections.abc import Iterator
from itertools import islice

MOST_NODES = 65536
"""In one host list, as in one range of Slurm's: more is a slip of the keyboard."""
_MOST_RANGES = 8
_MOST_SHOWN = 80

_PART = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_RANGES = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def expand(text: str) -> tuple[str, ...]:
    """
    The names that *text* stands for, in its order; zeros in front are kept (`n[08-10]`).

    Raises `ValueError` where it is not a host list.
    """
    parts = _PART.findall(text)
    if ",".join(parts) != text or any(part.count("[") > _MOST_RANGES for part in parts):
        raise ValueError(f"not a host list: {_shown(text)}")
    names = (name for part in parts for name in _names(part))
    found = tuple(islice(names, MOST_NODES + 1))
    if len(found) > MOST_NODES:
        raise ValueError(f"more than {MOST_NODES} nodes: {_shown(text)}")
    return found


def _names(part: str) -> Iterator[str]:
    found = _RANGES.search(part)
    if not found:
        yield part
        return
    before, after = part[: found.start()], part[found.end() :]
    for word in found[1].split(","):
        limits = _RANGE.fullmatch(word)
        if not limits:
            raise ValueError(f"not a host list: {_shown(part)}")
        first, last = limits[1], limits[2] or limits[1]
        if int(last) < int(first):
            raise ValueError(f"not a host list, {word} runs backwards: {_shown(part)}")
        for number in range(int(first), int(last) + 1):
            for rest in _names(after):
                yield f"{before}{number:0{len(first)}d}{rest}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")
