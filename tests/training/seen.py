"""What a test sees of a training from outside, and how it limits it."""

import io
import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.watch.heartbeat import Beat, beat_path, read_beat


def steps_saved(directory: Path) -> list[int]:
    """Steps of all checkpoints there, the oldest first."""
    entries = found(directory) if directory.is_dir() else []
    return sorted(entry.manifest.step for entry in entries if entry.manifest)


def beat(folder: Path, rank: int) -> Beat | None:
    """A rank's heartbeat, once there is one."""
    try:
        return read_beat(beat_path(folder, rank))
    except UntrustedFileError:
        return None


def has_reached(folder: Path, step: int) -> bool:
    """Whether both ranks have done *step*."""
    beats = [beat(folder, rank) for rank in range(2)]
    return all(one and one.step >= step for one in beats)


def heard() -> io.StringIO:
    """What this process logs from here on; for a rank, which ends with its job."""
    said = io.StringIO()
    logging.getLogger("slurm_resilience").addHandler(logging.StreamHandler(said))
    return said


@contextmanager
def limited(limit: int, value: int) -> Iterator[None]:
    """This process with a resource limit, for the length of the block."""
    soft, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(limit, (soft, hard))
