"""
Which ranks see the same directory of checkpoints: all of them, or, where it lies on a disk of each
node, those of one node.

Seen by trying, not by the names of hosts: what counts is the file that another finds.
"""

import errno
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from slurm_resilience.checkpoint_files.keep import PROBE
from slurm_resilience.checkpoint_files.listing import shown
from slurm_resilience.errors import CheckpointPlaceError, CheckpointSaveError
from slurm_resilience.files import sync_directory
from slurm_resilience.training.peers import Failure, Peers

T = TypeVar("T")

PROBE_BYTES = 4096
NOT_A_PLACE = frozenset({
    errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP,
    errno.ENAMETOOLONG, errno.EINVAL,
})  # fmt: skip
"""What a person has to see to; the rest is a disk that is full or ill."""


class Nodes(NamedTuple):
    """The ranks, by the directory that they see."""

    rank: int
    groups: tuple[tuple[int, ...], ...]
    """Ranks that share a directory, in order; each rank is in one of them."""

    @property
    def are_one(self) -> bool:
        """Whether all ranks see the same directory."""
        return len(self.groups) == 1

    @property
    def ranks(self) -> tuple[int, ...]:
        """Those that see the directory of this rank."""
        return next(group for group in self.groups if self.rank in group)

    @property
    def leads(self) -> bool:
        """Whether this rank does what is to be done once in its directory."""
        return self.rank == self.ranks[0]

    def told(self, peers: Peers, do: Callable[[], T]) -> T:
        """What *do* returns on the rank that leads this one; its error on all where one fails."""
        if self.are_one:
            return peers.first(do)
        mine = peers.tried(do) if self.leads else None
        everybody: list[T | Failure | None] = list(peers.shared(mine))
        return everybody[self.ranks[0]]  # type: ignore[return-value]

    def led(self, peers: Peers, do: Callable[[], object]) -> None:
        """*do* on every rank that leads; its error on all where one fails."""
        peers.shared(peers.tried(do) if self.leads else None)


def made(path: Path, peers: Peers, *, per_node: bool) -> Nodes:
    """
    Make the directory where it is missing, and find out who sees it.

    Every rank has to come here. Raises on all of them: `CheckpointPlaceError` where one may not
    write there or, but for *per_node*, sees another directory under that name,
    `CheckpointSaveError` where the disk is full or fails.
    """
    makes = peers.each(lambda: _made(path)) if per_node else [peers.first(lambda: _made(path))]
    token = makes[0]
    peers.each(lambda: _probe(path, token, peers.rank))
    if per_node:
        return _grouped(path, token, peers)
    peers.first(lambda: _check_seen(path, token, peers.world_size))
    return Nodes(peers.rank, (tuple(range(peers.world_size)),))


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Turn what the system says of *path* into our errors."""
    try:
        yield
    except OSError as error:
        text = f"{shown(path)}: cannot write there: {error.strerror}"
        if error.errno in NOT_A_PLACE:
            raise CheckpointPlaceError(f"{text}; give Checkpoints(...) another") from error
        raise CheckpointSaveError(text) from error


def _made(path: Path) -> str:
    with usable(path):
        if not path.parent.is_dir():
            raise CheckpointPlaceError(
                f"{path.parent} does not exist or is not a directory; is its file system mounted?"
            )
        try:
            if not path.is_dir():
                path.mkdir(exist_ok=True)
                with suppress(PermissionError):  # what it lies in need not be ours to read
                    sync_directory(path.parent)
        except FileExistsError as error:
            what = "is not a directory; move it away, or name another"
            if path.is_symlink():
                target = shown(Path(os.readlink(path)))  # noqa: PTH115 - as it is written there
                what = (
                    f"is a link to {target}, which is no directory; is its file system mounted?"
                )
            raise CheckpointPlaceError(f"{path} {what}") from error
    return secrets.token_hex(8)


def _probe(path: Path, token: str, rank: int) -> None:
    with usable(path):
        if not path.is_dir():
            raise CheckpointPlaceError(
                f"{path} does not exist here; all nodes have to share it, or each has its own and "
                "Checkpoints(..., per_node=True)"
            )
        probe = _probe_path(path, token, rank)
        try:
            probe.write_bytes(bytes(PROBE_BYTES))
        except OSError:
            with suppress(OSError):
                probe.unlink(missing_ok=True)
            raise


def _check_seen(path: Path, token: str, world_size: int) -> None:
    probes = [_probe_path(path, token, rank) for rank in range(world_size)]
    with usable(path):
        missing = [rank for rank, probe in enumerate(probes) if not probe.exists()]
        for probe in probes:
            probe.unlink(missing_ok=True)
    if missing:
        raise CheckpointPlaceError(
            f"{path} is not the same directory on every node: rank {missing[0]} sees another; "
            "use a shared file system, or Checkpoints(..., per_node=True)"
        )


def _grouped(path: Path, token: str, peers: Peers) -> Nodes:
    seen: list[int] = []

    def look() -> int:
        with usable(path):
            names = set(os.listdir(path))  # noqa: PTH208 - one question, not one a rank
        ranks = range(peers.world_size)
        seen.extend(rank for rank in ranks if _probe_path(path, token, rank).name in names)
        return min(seen, default=-1)

    # The first that each sees stands for all that it sees: what is told stays small.
    groups = groups_of(peers.each(look))

    def check() -> None:
        with usable(path):
            _probe_path(path, token, peers.rank).unlink(missing_ok=True)
        if tuple(seen) not in groups or peers.rank not in seen:
            raise CheckpointPlaceError(
                f"{path} is a different directory to each rank that asks (here the files of "
                f"{', '.join(map(str, seen)) or 'nobody'} are seen); use a local disk or a shared one"
            )

    peers.each(check)
    return Nodes(peers.rank, groups)


def groups_of(firsts: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The ranks that see the same directory, by the first rank that each sees there."""
    groups: dict[int, list[int]] = {}
    for rank, first in enumerate(firsts):
        groups.setdefault(first, []).append(rank)
    return tuple(map(tuple, groups.values()))


def _probe_path(path: Path, token: str, rank: int) -> Path:
    return path / f"{PROBE}{token}-{rank}"
