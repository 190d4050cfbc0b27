"""The kernel log since boot: the records that a rule could want, unjudged."""

import errno
import os
import stat

MARKS = (b"NVRM", b"SXid", b"mlx5_core", b"blocked for more than", b"GPU reset executed")
"""A record without any of these is of no use to a prolog."""
MORE_MARKS = (
    b"[Hardware Error]", b"Machine Check", b"EDAC ", b"Memory failure", b"PCIe Bus Error",
    b": AER: ", b": DPC: ", b"pciehp: ", b"nvme nvme", b" error, dev ", b"EXT2-fs", b"EXT3-fs",
    b"EXT4-fs", b"F2FS-fs", b"XFS (", b"BTRFS ", b"nfs: server",
    b"no available path", b"Disk failure on ", b"Lock reclaim failed",
)  # fmt: skip
"""
What the health check wants beside them. Corrected errors may come by the thousand and change with
each look, so they are kept apart and out of the prolog.
"""
MOST_RECORDS = 4096
"""Of those that are kept, of either sort; the newest stay."""
_RECORD_BYTES = 8192
_MOST_FILE_BYTES = 16 << 20


def read(path: str, *, everything: bool = False) -> list[tuple[int, int, str]]:
    """
    (sequence number, microseconds since boot, text) of the records with one of `MARKS`.

    *everything*: of those with one of `MORE_MARKS` too.
    *path* is /dev/kmsg, or a plain file of records as it gives them: `prio,seq,usec,flags;text`.
    Raises OSError where it cannot be read.
    """
    marks = (*MARKS, *MORE_MARKS) if everything else MARKS
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raw = os.pread(descriptor, _MOST_FILE_BYTES, 0).split(b"\n")
            kept = [record for record in raw if _has(record, marks)]
        else:
            kept = _from_ring(descriptor, marks)
    finally:
        os.close(descriptor)
    if everything:
        first = [record for record in kept if _has(record, MARKS)]
        others = [record for record in kept if not _has(record, MARKS)]
        return sorted(_newest(first) + _newest(others))
    return _newest(kept)


def _has(record: bytes, marks: tuple[bytes, ...]) -> bool:
    return any(mark in record for mark in marks)


def _newest(kept: list[bytes]) -> list[tuple[int, int, str]]:
    return [parsed for record in kept[-MOST_RECORDS:] if (parsed := _parse(record))]


def _from_ring(descriptor: int, marks: tuple[bytes, ...]) -> list[bytes]:
    kept: list[bytes] = []
    while True:
        try:
            record = os.read(descriptor, _RECORD_BYTES)
        except BlockingIOError:  # that was the last one
            return kept
        except OSError as error:
            if error.errno == errno.EPIPE:  # overwritten meanwhile; the next one follows
                continue
            raise
        if not record:
            return kept
        if _has(record, marks):
            kept.append(record)


def _parse(record: bytes) -> tuple[int, int, str] | None:
    head, semicolon, rest = record.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 3 or not (fields[1].isdigit() and fields[2].isdigit()):  # noqa: PLR2004 - prio,seq,usec
        return None
    # What follows the first line is a dictionary of the device, ` KEY=value`.
    text = rest.partition(b"\n")[0].replace(b"\\x0a", b"\n")
    return int(fields[1]), int(fields[2]), text.decode("utf-8", "replace")
