"""
Whether a directory is a good place for checkpoints: read by `look`, judged by the others.

Nothing here refuses: each concern is one line for the log, and the run's owner decides.
"""

import os
from pathlib import Path
from typing import NamedTuple

from slurm_resilience.checkpoint_files.listing import shown

IN_MEMORY = {"tmpfs", "ramfs", "rootfs", "overlay"}
"""File systems that go with the node, or with its container."""
MOUNTS = Path("/proc/self/mountinfo")
MIB, GIB = 1 << 20, 1 << 30
SHORT_S = 1.0
"""A save of which nobody notices how long it took."""


class Place(NamedTuple):
    """Where a directory lies."""

    directory: Path
    kind: str
    """The file system's, as in mountinfo; empty where that cannot be told."""
    total_bytes: int
    free_bytes: int
    """That a user may write."""
    shares_with: Path | None = None
    """The training data, where it lies on the same file system."""
    data_problem: str = ""
    """Why the training data cannot be looked at; empty: it can, or there is no word on it."""


def look(directory: Path, data: Path | None = None) -> Place:
    """Look at *directory*, `OSError` where it is not there; and at the training *data*."""
    status, room = directory.stat(), os.statvfs(directory)
    device = status.st_dev
    kinds = _kinds(MOUNTS.read_text(encoding="utf-8", errors="replace"))
    is_shared, data_problem = False, ""
    try:
        is_shared = data is not None and data.stat().st_dev == device
    except OSError as error:
        data_problem = f"{shown(data or directory)}: {error.strerror}"
    return Place(
        directory,
        kinds.get(f"{os.major(device)}:{os.minor(device)}", ""),
        room.f_blocks * room.f_frsize,
        room.f_bavail * room.f_frsize,
        data if is_shared else None,
        data_problem,
    )


def concerns(place: Place) -> list[str]:
    """What speaks against the place before anything is saved there."""
    where = shown(place.directory)
    found = []
    if place.kind in IN_MEMORY:
        found.append(
            f"{where} is on {place.kind}: checkpoints there go with this node; use a disk that "
            "outlives it"
        )
    if place.shares_with is not None:
        found.append(
            f"{where} lies on the same file system as the training data "
            f"({shown(place.shares_with)}): reading and saving slow each other down, and one full "
            "disk stops both; use another"
        )
    if place.data_problem:
        found.append(
            f"training_data={place.data_problem}: whether {where} lies on the same file system is "
            "not known"
        )
    return found


def lack_of_room(
    place: Place, *, keep: int, size_bytes: int, held_bytes: int, copies: bool = False
) -> str:
    """
    Whether *keep* checkpoints of *size_bytes* and the one being written do not fit; empty: they do.

    *held_bytes* are taken by checkpoints that are there already. With *copies* one more has to fit: a
    copy under way holds the one that it sends, though that is no longer kept.
    """
    needed_bytes = (keep + 1 + copies) * size_bytes
    if needed_bytes <= place.free_bytes + held_bytes:
        return ""
    more = ", the one being copied" if copies else ""
    room_bytes = min(place.free_bytes + held_bytes, place.total_bytes)
    return (
        f"{shown(place.directory)} has room for {spelled(room_bytes)} of checkpoints; "
        f"keep={keep}{more} and the one being written need {spelled(needed_bytes)}: saves will "
        "fail; free some space or keep fewer"
    )


def slowness(directory: Path, *, took_s: float, interval_s: float) -> str:
    """Whether a save takes longer than the time until the next; empty: it does not, or is short."""
    if took_s <= max(interval_s, SHORT_S):
        return ""
    return (
        f"{shown(directory)} is too slow: a save took {took_s:.1f} s and is due every "
        f"{interval_s:.1f} s, so training will wait; save less often, or on a faster disk"
    )


def spelled(size_bytes: int) -> str:
    """A size for a message."""
    if size_bytes < GIB:
        return f"{size_bytes / MIB:.1f} MiB"
    return f"{size_bytes / GIB:.2f} GiB"


def _kinds(mounts: str) -> dict[str, str]:
    """File system types by major:minor, from mountinfo (proc(5): the type is behind the dash)."""
    kinds = {}
    for line in mounts.splitlines():
        before, dash, after = line.partition(" - ")
        fields = before.split()
        if dash and len(fields) > 2 and after.split():  # noqa: PLR2004 - number, parent, device
            kinds[fields[2]] = after.split()[0]
    return kinds
