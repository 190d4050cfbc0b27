"""The one place that takes a lock."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from slurm_resilience.errors import LockBusyError


@contextmanager
def held(path: Path, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold the lock file *path*; `LockBusyError` when it is not free within *wait_s* seconds."""
    # Not bound to a thread: another one may let go of it.
    lock = FileLock(path, timeout=wait_s, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise LockBusyError(
            f"{path} is held by another process; stop that one first"
        ) from error
    try:
        yield
    finally:
        lock.release()
