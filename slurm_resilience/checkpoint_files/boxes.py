"""Whether boxes of a tensor have an element in common, with work that is bounded."""

from collections.abc import Sequence
from typing import Protocol

MOST_VISITS = 64
"""Of each box: two or three do for the shards of a mesh, however many dimensions it has."""
FEW = 64
"""Boxes of which every two are compared, where no cut goes between them."""


class Box(Protocol):
    """A part of a tensor that holds at least one element."""

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where it begins, by axis."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """How far it goes, by axis."""


def overlap(boxes: Sequence[Box]) -> bool:
    """
    Whether two of *boxes*, all of the same tensor, have an element in common.

    Cut after cut parts them, along whichever axis: so lie the shards of any mesh. Where they lie in
    such disorder that it would take too long to tell, they are said to overlap.
    """
    groups, visits = [list(boxes)], MOST_VISITS * len(boxes)
    while groups:
        group = groups.pop()
        for axis in range(len(group[0].sizes) if len(group) > 1 else 0):
            visits -= len(group)
            if visits < 0:
                return True
            runs, is_one = _runs(group, axis)
            if not is_one:
                groups += runs
                break
        else:
            if len(group) > FEW or _some_two_meet(group):
                return True
    return False


def _runs(group: list[Box], axis: int) -> tuple[list[list[Box]], bool]:
    """What cuts across *axis* part the group into, but for single boxes; whether none does."""
    group.sort(key=lambda box: box.offsets[axis])
    runs: list[list[Box]] = []
    start, end = 0, group[0].offsets[axis]
    for at, box in enumerate(group):
        if box.offsets[axis] >= end:
            if at - start > 1:
                runs.append(group[start:at])
            start = at
        end = max(end, box.offsets[axis] + box.sizes[axis])
    if start == 0:
        return runs, True
    if len(group) - start > 1:
        runs.append(group[start:])
    return runs, False


def _some_two_meet(group: list[Box]) -> bool:
    return any(_meet(one, other) for at, one in enumerate(group) for other in group[at + 1 :])


def _meet(one: Box, other: Box) -> bool:
    return all(
        mine < theirs + their_size and theirs < mine + my_size
        for mine, my_size, theirs, their_size in zip(
            one.offsets, one.sizes, other.offsets, other.sizes, strict=True
        )
    )
