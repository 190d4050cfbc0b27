"""Where checkpoints go, how often, and how many are kept."""

import errno
import os
import platform
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from slurm_resilience.checkpoint_files.keep import remove_unfinished
from slurm_resilience.checkpoint_files.listing import shown
from slurm_resilience.checkpoint_files.owner import Claim, owner
from slurm_resilience.errors import CheckpointPlaceError, CheckpointSaveError, UsageError
from slurm_resilience.training.due import Due
from slurm_resilience.training.peers import Failure, Peers

PROBE_BYTES = 4096
NOT_A_PLACE = frozenset({
    errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP,
    errno.ENAMETOOLONG, errno.EINVAL,
})  # fmt: skip
"""What a person has to see to; the rest is a disk that is full or ill."""


@dataclass(frozen=True)
class Checkpoints:
    """
    Checkpoints in *directory*, which every rank has to see: a fast, shared disk, not the one that
    the training data is read from.

    One is written every *every_steps* steps or *every_minutes* minutes, whichever is first (None:
    not by that), and when the job is told to stop. The newest *keep* are kept. The directory
    itself is made where it is missing, what it lies in is not: that is a missing mount.

    *if_busy*: what happens when a save is due and the last one is not done. "wait": training stands
    until it is, and the save is of the step it was due at. "skip": training goes on, and saves at
    the first step at which it is done.

    *training_data*: where that is read from; said in the log if it is the same file system.
    *copies*: a URL (`s3://bucket/path`, one a training) to which the newest sound checkpoint is copied
    every *copy_every_minutes*, beside the training; the newest *keep_copies* stay there. Where
    the directory holds no checkpoint, the newest copy is fetched.
    """

    directory: str | os.PathLike[str]
    every_steps: int | None = 500
    every_minutes: float | None = 30.0
    keep: int = 3
    if_busy: Literal["wait", "skip"] = "wait"
    training_data: str | os.PathLike[str] | None = None
    copies: str | None = None
    copy_every_minutes: int = 120
    keep_copies: int = 2

    def __post_init__(self) -> None:
        """Refuse nonsense with a `UsageError`."""
        if not str(self.directory) or "\0" in str(self.directory):
            raise UsageError(f"Checkpoints: {str(self.directory)!r} is no name of a directory")
        if self.every_steps is None and self.every_minutes is None:
            raise UsageError(
                "Checkpoints: set every_steps or every_minutes, or nothing is saved"
            )
        for name, value in (
            ("every_steps", self.every_steps),
            ("keep", self.keep),
            ("copy_every_minutes", self.copy_every_minutes),
            ("keep_copies", self.keep_copies),
        ):
            whole = isinstance(value, int | None)
            if not whole or (value is not None and value < 1):
                raise UsageError(f"Checkpoints: {name} is {value!r}; it has to be 1 or more")
        if self.every_minutes is not None and not self.every_minutes > 0:
            raise UsageError(f"Checkpoints: every_minutes is {self.every_minutes!r}")
        if self.if_busy not in {"wait", "skip"}:
            raise UsageError(
                f'Checkpoints: if_busy is {self.if_busy!r}; it has to be "wait" or "skip"'
            )

    @property
    def path(self) -> Path:
        """The directory."""
        return Path(os.path.abspath(self.directory))  # noqa: PTH100 - resolve() would follow links

    @property
    def data_path(self) -> Path | None:
        """Where the training data lies; None: not said."""
        return None if self.training_data is None else Path(self.training_data)

    @property
    def due(self) -> Due:
        """When to save."""
        return Due(
            self.every_steps, None if self.every_minutes is None else self.every_minutes * 60
        )


def claimed(path: Path, peers: Peers) -> Claim | None:
    """
    Make and claim the directory; the claim is rank 0's, other ranks get None.

    Every rank has to come here. Raises on all of them: `CheckpointPlaceError` where one may not
    write there or sees another directory under that name, `CheckpointSaveError` where the disk is
    full or fails, `CheckpointInUseError` where another job is writing there.
    """
    token = peers.first(lambda: _made(path))
    peers.each(lambda: _probe(path, token, peers.rank))
    peers.first(lambda: _check_seen(path, token, peers.world_size))
    claim = None
    if peers.rank == 0:
        claim = peers.tried(lambda: _claim(path))
    peers.shared(claim if isinstance(claim, Failure) else None)
    return claim if isinstance(claim, Claim) else None


def _made(path: Path) -> str:
    with _usable(path):
        if not path.parent.is_dir():
            raise CheckpointPlaceError(
                f"{path.parent} does not exist or is not a directory; is its file system mounted?"
            )
        try:
            path.mkdir(exist_ok=True)
        except FileExistsError as error:
            raise CheckpointPlaceError(
                f"{path} is not a directory; move it away, or name another"
            ) from error
    return secrets.token_hex(8)


def _probe(path: Path, token: str, rank: int) -> None:
    with _usable(path):
        if not path.is_dir():
            raise CheckpointPlaceError(
                f"{path} does not exist here; all nodes have to share it"
            )
        probe = _probe_path(path, token, rank)
        try:
            probe.write_bytes(bytes(PROBE_BYTES))
        except OSError:
            with suppress(OSError):
                probe.unlink(missing_ok=True)
            raise


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = f"{shown(path)}: cannot write there: {error.strerror}"
        if error.errno in NOT_A_PLACE:
            raise CheckpointPlaceError(f"{text}; give Checkpoints(...) another") from error
        raise CheckpointSaveError(text) from error


def _check_seen(path: Path, token: str, world_size: int) -> None:
    probes = [_probe_path(path, token, rank) for rank in range(world_size)]
    missing = [rank for rank, probe in enumerate(probes) if not probe.exists()]
    for probe in probes:
        probe.unlink(missing_ok=True)
    if missing:
        raise CheckpointPlaceError(
            f"{path} is not the same directory on every node: rank {missing[0]} sees another; "
            "use a shared file system"
        )


def _probe_path(path: Path, token: str, rank: int) -> Path:
    return path / f".probe-{token}-{rank}"


def _claim(path: Path) -> Claim:
    with _usable(path):
        claim = Claim(path, owner(os.environ, node=platform.node(), pid=os.getpid()))
        try:
            remove_unfinished(path)
        except OSError:
            claim.release()
            raise
    return claim
