"""
One job writes to a directory of checkpoints; its next attempt takes over from a dead one.

Two things guard it. A lock, held by rank 0, that the system lets go when the process dies. And
`owner.json`, which says who came last: a node that is gone may hold a lock on a network file
system for minutes, and that must not keep the next attempt of the same job out.
"""

import errno
import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from slurm_resilience.errors import (
    CheckpointError,
    CheckpointInUseError,
    CheckpointPlaceError,
    LockBusyError,
    UntrustedFileError,
)
from slurm_resilience.files import read_bounded, replace, sync_directory
from slurm_resilience.locks import held

log = logging.getLogger(__name__)

NAME = "owner.json"
LOCK = "owner.lock"
WAIT_S = 10.0
"""For the lock of a process that has just ended: its children may hold it a little longer."""
FOLLOWER_WAIT_S = 1.0
"""For the lock of an earlier attempt, which may never come free."""
UNREADABLE = (OSError, UntrustedFileError, msgspec.DecodeError, UnicodeDecodeError)
NO_LOCKS_HERE = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}


class Owner(msgspec.Struct, frozen=True):
    """Who writes to a directory of checkpoints."""

    job: str
    """The Slurm job; empty outside Slurm."""
    generation: tuple[int, int]
    """Restarts of the job by Slurm, and of the ranks by torchrun within the attempt."""
    node: str
    pid: int
    token: str
    """Made anew by each owner."""

    def follows(self, other: "Owner | None") -> bool:
        """Whether this is a later life of the same job."""
        if other is None or not self.job:
            return False
        return self.job == other.job and self.generation > other.generation

    def __str__(self) -> str:
        who = f"job {self.job}, attempt {self.generation[0]}" if self.job else "a process"
        return f"{who} (pid {self.pid} on {self.node})"


def owner(environment: Mapping[str, str], *, node: str, pid: int) -> Owner:
    """This process as an owner; array tasks are jobs of their own."""
    array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
    job = f"{array}_{task}" if array and task else environment.get("SLURM_JOB_ID", "")
    restarts = _count(environment, "SLURM_RESTART_COUNT")
    generation = (restarts, _count(environment, "TORCHELASTIC_RESTART_COUNT"))
    return Owner(job, generation, node, pid, secrets.token_hex(8))


class Claim:
    """A directory that is ours until `release`."""

    def __init__(self, directory: Path, me: Owner, *, wait_s: float = WAIT_S) -> None:
        """Claim *directory*; `CheckpointInUseError` where another job holds it."""
        self._directory = directory
        self._file_system = directory.stat().st_dev
        self.me = me
        self._before = last_owner(directory)
        self._lock = ExitStack()
        self._take(wait_s)

    def confirm(self) -> None:
        """
        Raise `CheckpointInUseError` once another has taken over: then write no more.

        Raises `CheckpointError` where that cannot be known.
        """
        confirm(self._directory, self.me.token)

    def renew(self) -> bool:
        """
        Claim the directory again where that was deleted, or the claim in it; whether it had to be
        made again.

        Raises `CheckpointInUseError` where another has taken it meanwhile, and
        `CheckpointPlaceError` where its file system is gone: what is written to the empty
        mount point fills another disk, and nobody finds it once the mount is back.
        """
        self.confirm()
        try:
            (self._directory / NAME).lstat()
        except FileNotFoundError:
            pass
        else:
            return False
        if _file_system(self._directory) != self._file_system:
            raise CheckpointPlaceError(
                f"{self._directory} is gone, and the file system that it was on; mount it again"
            )
        is_gone = not self._directory.exists()
        self._directory.mkdir(exist_ok=True)
        with suppress(PermissionError):  # what it lies in need not be ours to read
            sync_directory(self._directory.parent)
        self._lock.close()
        self._take(0.0)
        return is_gone

    def release(self) -> None:
        """Let go of the lock."""
        self._lock.close()

    def give_back(self) -> None:
        """
        Let go of it, and let who owned it before be the last owner again: whoever follows them may
        take over once more, where a lost node holds the lock.
        """
        try:
            self.confirm()
            _sign_back(self._directory, self._before)
        finally:
            self.release()

    def _take(self, wait_s: float) -> None:
        if self.me.follows(last_owner(self._directory)):
            wait_s = min(wait_s, FOLLOWER_WAIT_S)
        try:
            self._lock.enter_context(held(self._directory / LOCK, wait_s=wait_s))
        except LockBusyError as error:
            last = last_owner(self._directory)
            if not self.me.follows(last):
                raise CheckpointInUseError(
                    f"{self._directory} is in use by {last or 'another process'}; "
                    "give each job a directory of its own"
                ) from error
            log.warning("%s: its lock is still held by %s; taking over", self._directory, last)
        except (OSError, NotImplementedError) as error:
            if isinstance(error, OSError) and error.errno not in NO_LOCKS_HERE:
                raise
            log.warning(
                "%s: no locks on this file system; nothing keeps a second job out",
                self._directory,
            )
        try:
            _sign(self._directory, self.me)
        except OSError:
            self._lock.close()  # or the next try of this process would find it held
            raise


def _file_system(directory: Path) -> int | None:
    nearest = directory if directory.exists() else directory.parent
    return nearest.stat().st_dev if nearest.exists() else None


@contextmanager
def standing_in(directory: Path, me: Owner) -> Iterator[None]:
    """
    Let *me*, who holds the lock, be the last owner meanwhile: else the next attempt of the job that
    was would take over without the lock. Afterwards that job is again: it may be at work without
    the lock.
    """
    last = last_owner(directory)
    _sign(directory, me)
    try:
        yield
    finally:
        _sign_back(directory, last)


def confirm(directory: Path, token: str) -> None:
    """
    Raise `CheckpointInUseError` where *directory* was claimed last by another than who has *token*.

    Raises `CheckpointError` where that cannot be known.
    """
    try:
        last = _read(directory)
    except UNREADABLE as error:
        cause = error if isinstance(error, OSError) else error.__cause__ or error
        raise CheckpointError(
            f"{directory / NAME}: cannot tell whether another writes there ({error}); "
            "where the file is damaged, delete it"
        ) from cause
    if last is not None and last.token != token:
        raise CheckpointInUseError(
            f"{directory}: taken over by {last}; this process writes there no more"
        )


def last_owner(directory: Path) -> Owner | None:
    """Who claimed *directory* last; None where that cannot be read."""
    try:
        return _read(directory)
    except UNREADABLE:
        return None


def _read(directory: Path) -> Owner | None:
    try:
        data = read_bounded(directory / NAME, most_bytes=1 << 16)
    except FileNotFoundError:
        return None
    return msgspec.json.decode(data, type=Owner)


def _sign(directory: Path, me: Owner) -> None:
    replace(directory / NAME, msgspec.json.encode(me) + b"\n")


def _sign_back(directory: Path, last: Owner | None) -> None:
    if last:
        _sign(directory, last)
    else:
        (directory / NAME).unlink(missing_ok=True)


def _count(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "0")
    return int(text) if text.isdecimal() else 0
