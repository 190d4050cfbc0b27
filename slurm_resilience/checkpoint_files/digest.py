"""
Digests of files.

CRC-32: the one digest of the standard library that is clearly faster than disks (3 GB/s on one
core where SHA-256 does 1.3). It is there to find cut, torn and rotten files.
"""

import os
import stat
import zlib
from pathlib import Path

from slurm_resilience.checkpoint_files.manifest import File
from slurm_resilience.errors import CheckpointLoadError

BLOCK_BYTES = 8 << 20


def digest(path: Path, *, from_disk: bool = False) -> File:
    """
    Size and digest of a plain file, read in blocks.

    *from_disk*: drop what the page cache holds of it first, so that the bytes come from where
    they were written to. Raises `CheckpointLoadError` where it cannot be read or is no plain file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise CheckpointLoadError(f"{path.name} is not a plain file")
            if from_disk:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            block = memoryview(bytearray(BLOCK_BYTES))
            size, crc = 0, 0
            while count := file.readinto(block):
                size += count
                crc = zlib.crc32(block[:count], crc)
    except OSError as error:
        raise CheckpointLoadError(f"{path.name}: {error.strerror}") from error
    return File(size_bytes=size, crc32=crc)
