"""
Where checkpoints go that do not verify: moved, with the reason, never deleted unseen.

    <directory>/quarantine/
        step-000000499-1/         the checkpoint as it was found
        step-000000499-1.json     why, since when

Each takes the room of a sound one, so only a few stay, those of the latest steps; and one of them
goes only when it has been read once more and still is damaged, or holds a NaN or an infinity.
"""

import errno
import logging
import os
import time
from collections.abc import Collection
from pathlib import Path

import msgspec

from slurm_resilience.checkpoint_files.keep import QUARANTINE, remove
from slurm_resilience.checkpoint_files.listing import (
    PREFIX,
    Found,
    Newer,
    Senseless,
    Unread,
    look,
    problems,
)
from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.files import read_bounded, replace, sync_directory

log = logging.getLogger(__name__)

MOST = 3
"""Checkpoints in it."""
MOST_NAMES = 10_000
MOST_DIGITS = 19
MOST_BYTES = 1 << 16
MOST_WHY = 2000


class Reason(msgspec.Struct, frozen=True):
    """Why a checkpoint was put aside."""

    why: str
    since: float
    """Unix seconds."""


def damage(entry: Found) -> str:
    """
    What is wrong with the checkpoint itself, after reading all of it; empty also where it could not
    be read: an ill disk or a slow file system says nothing about what lies there, and a version that
    does not know its format neither.
    """
    for problem in problems(entry):
        return "" if isinstance(problem, Unread | Newer) else problem
    return ""


def set_aside(checkpoint: Path, why: str) -> Path:
    """
    Move a checkpoint into quarantine; where it lies now.

    To be called by the directory's owner alone, who lets `thin_out` follow when nobody waits. Cut off
    at any point, the checkpoint lies here or there, whole as it was.
    """
    quarantine = checkpoint.parent / QUARANTINE
    if quarantine.is_symlink():  # who runs this may write where the link's owner may not
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(quarantine))
    quarantine.mkdir(exist_ok=True)
    aside = _free(quarantine, checkpoint.name)
    reason = Reason(why[:MOST_WHY], time.time())
    replace(_reason_path(aside), msgspec.json.encode(reason) + b"\n")
    checkpoint.rename(aside)
    sync_directory(quarantine)
    sync_directory(checkpoint.parent)
    return aside


def put_aside(directory: Path) -> list[tuple[Path, Reason]]:
    """What lies in quarantine in *directory* and why, the latest first."""
    quarantine = directory / QUARANTINE
    if not quarantine.is_dir():
        return []
    there = [
        (path, reason_of(path))
        for path in sorted(quarantine.iterdir())
        if path.is_dir() and not path.name.startswith(".")
    ]
    return sorted(there, key=lambda aside: aside[1].since, reverse=True)


def reason_of(aside: Path) -> Reason:
    """Why it was put there; a reason that says so where that is not known."""
    try:
        data = read_bounded(_reason_path(aside), most_bytes=MOST_BYTES)
        return msgspec.json.decode(data, type=Reason)
    except (OSError, UntrustedFileError, msgspec.DecodeError, UnicodeDecodeError):
        return Reason("the reason was not recorded", 0.0)


def thin_out(directory: Path, *, known: Collection[Path] = ()) -> frozenset[Path]:
    """
    Delete all in quarantine but the few of the latest steps, but for what turns out to be sound, cannot
    be read, or may make sense to another version. What is poisoned, or a part whose other parts are
    gone, is nothing to go on from: it is not read.

    Reads and deletes, which can take minutes; several may do it at once. What it returns stays, and is
    not read again by a call to which that is *known*.
    """
    try:
        there = sorted((path for path, _ in put_aside(directory)), key=_step_in_name)
    except OSError as error:
        log.warning("%s: the quarantine cannot be read: %s", directory, error)
        return frozenset(known)
    return frozenset(
        path for path in there[:-MOST] if path in known or not _is_thrown_away(path)
    )


def _is_thrown_away(aside: Path) -> bool:
    try:
        if not _is_useless(look(aside)):
            return False
        remove(aside)
        _reason_path(aside).unlink(missing_ok=True)
    except FileNotFoundError:  # another was first
        pass
    except OSError as error:
        log.warning("%s stays in quarantine: %s", aside, error)
        return False
    return True


def _is_useless(entry: Found) -> bool:
    if entry.manifest and (entry.manifest.part or entry.manifest.poison):
        return True
    why = damage(entry)
    return bool(why) and not isinstance(why, Senseless)


def _step_in_name(aside: Path) -> int:
    # Not by the manifest, which may be what is damaged.
    step = aside.name.removeprefix(PREFIX).partition("-")[0]
    return int(step) if step.isdecimal() and len(step) <= MOST_DIGITS else -1


def _free(quarantine: Path, name: str) -> Path:
    for number in range(1, MOST_NAMES):
        aside = quarantine / f"{name}-{number}"
        if not aside.exists() and not _reason_path(aside).exists():
            return aside
    raise FileExistsError(
        17, "too many checkpoints of this step in quarantine", str(quarantine)
    )


def _reason_path(aside: Path) -> Path:
    return aside.with_name(f"{aside.name}.json")
