"""
Large files, block by block in several threads, past the page cache where the file system allows it.

Past the cache (O_DIRECT): the bytes of a checkpoint are read again only after a fault, if ever, and
would push out of memory what the training reads. It also is the faster way for one file. A file
system that has no such thing, or memory that does not lie as it must, is written the usual way.
"""

import errno
import mmap
import os
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import reduce
from pathlib import Path
from typing import TypeVar

from slurm_resilience.checkpoint_files.crc import joined
from slurm_resilience.checkpoint_files.manifest import File

T = TypeVar("T")
R = TypeVar("R")

BLOCK_BYTES = 8 << 20
THREADS = min(4, max(2, len(os.sched_getaffinity(0))))
"""Enough to keep a disk busy, and to digest meanwhile; each has one block under way."""
ALIGNMENT = mmap.PAGESIZE
NO_DIRECT = {errno.EINVAL, errno.EOPNOTSUPP}


def in_threads(do: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
    """
    What *do* returns for each task, in their order; a few at a time, one in the calling thread.

    After the first error no new task begins, and it is raised when those under way have ended.
    Not an executor: that takes nothing more once the interpreter ends, when a last save may still
    be written; where no thread can be begun then, the calling one does it all.
    """
    results: dict[int, R] = {}
    errors: list[BaseException] = []
    numbers = iter(range(len(tasks)))
    turn = threading.Lock()

    def work() -> None:
        while True:
            with turn:
                number = None if errors else next(numbers, None)
            if number is None:
                return
            try:
                results[number] = do(tasks[number])
            except BaseException as error:  # noqa: BLE001 - raised below
                errors.append(error)

    helpers: list[threading.Thread] = []
    with suppress(RuntimeError):
        while len(helpers) < min(THREADS, len(tasks)) - 1:
            helper = threading.Thread(target=work, name="slurm-resilience-blocks", daemon=True)
            helper.start()
            helpers.append(helper)
    work()
    for helper in helpers:
        helper.join()
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(tasks))]


def write(path: Path, data: memoryview) -> File:
    """
    Write a new file and make it last; its size and digest.

    Raises `FileExistsError` where there is one.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with ExitStack() as open_files:
        plain = os.open(path, flags, 0o644)
        open_files.callback(os.close, plain)
        direct: int | None = None
        with suppress(OSError):
            direct = os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_CLOEXEC)
            open_files.callback(os.close, direct)
        if len(data) > BLOCK_BYTES:
            os.ftruncate(plain, len(data))  # or the threads wait for each other to append

        def one(start: int) -> tuple[int, int]:
            block = data[start : start + BLOCK_BYTES]
            _put(plain, direct, block, start)
            return zlib.crc32(block), len(block)

        crc = _whole(in_threads(one, range(0, len(data), BLOCK_BYTES)))
        os.fsync(plain)
    return File(size_bytes=len(data), crc32=crc)


def crc_of(descriptor: int, size_bytes: int, *, past_cache: bool) -> int:
    """
    The CRC-32 of an open plain file of *size_bytes*.

    *past_cache*: from where it lies, not from memory. Raises `EOFError` where it ends earlier.
    """
    if past_cache:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    direct = _reopened(descriptor) if past_cache and size_bytes > BLOCK_BYTES else None
    own = threading.local()

    def one(start: int) -> tuple[int, int]:
        block: mmap.mmap | None = getattr(own, "block", None)
        if block is None:
            block = own.block = mmap.mmap(-1, BLOCK_BYTES)
        wanted = memoryview(block)[: min(BLOCK_BYTES, size_bytes - start)]
        _fill(descriptor, direct, wanted, start)
        return zlib.crc32(wanted), len(wanted)

    try:
        return _whole(in_threads(one, range(0, size_bytes, BLOCK_BYTES)))
    finally:
        if direct is not None:
            os.close(direct)


def read_into(descriptor: int, target: memoryview, at: int) -> None:
    """Fill *target* with the bytes from *at* on; `EOFError` where the file ends earlier."""
    _fill(descriptor, None, target, at)


def _put(plain: int, direct: int | None, block: memoryview, at: int) -> None:
    while block:
        pages = len(block) // ALIGNMENT * ALIGNMENT
        if direct is not None and pages and at % ALIGNMENT == 0:
            try:
                count = os.pwrite(direct, block[:pages], at)
            except OSError as error:
                if error.errno not in NO_DIRECT:
                    raise
                count = os.pwrite(plain, block, at)
        else:
            count = os.pwrite(plain, block, at)
        block, at = block[count:], at + count


def _fill(descriptor: int, direct: int | None, target: memoryview, at: int) -> None:
    while target:
        count = 0
        if direct is not None and len(target) % ALIGNMENT == 0:
            try:
                count = os.preadv(direct, [target], at)
            except OSError as error:
                if error.errno not in NO_DIRECT:
                    raise
                direct = None
                continue
        else:
            count = os.preadv(descriptor, [target], at)
        if not count:
            raise EOFError("ends too early")
        target, at = target[count:], at + count


def _reopened(descriptor: int) -> int | None:
    """The same file past the cache; through /proc, so that it is the same one whatever its name."""
    with suppress(OSError):
        return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    return None


def _whole(parts: Sequence[tuple[int, int]]) -> int:
    return reduce(lambda crc, part: joined(crc, *part), parts, 0)
