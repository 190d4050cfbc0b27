"""The kernel log since boot: the records that a rule could want, unjudged."""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from collections.abc import Iterator

SORTS = (
    (b"NVRM", b"SXid"),
    (b"mlx5_core",),
    (b"blocked for more than",),
)
"""A record without any of these marks is of no use to a prolog."""
MORE_SORTS = (
    (b"PCIe Bus Error", b": AER: ", b": DPC: ", b"pciehp: "),
    (b"[Hardware Error]", b"Machine Check", b"EDAC ", b"Memory failure"),
    (
        b"nvme nvme", b" error, dev ", b"EXT2-fs", b"EXT3-fs", b"EXT4-fs", b"F2FS-fs", b"XFS (",
        b"BTRFS ", b"nfs: server", b"no available path", b"Disk failure on ",
        b"Lock reclaim failed",
    ),
)  # fmt: skip
"""What the health check wants beside them: it changes with each look, so it is not the prolog's."""
NOISE = ((b"ACCESS_REG(", b" failed, status"), (b"PCIe Bus Error", b"severity=Correct"))
"""
A record with all marks of one of these tells of no fault, and may come by the thousand: mlx5 writes
the first for each counter that it is asked for and does not have.
"""
MOST_RECORDS = 4096
"""Of each sort; the newest stay, and no storm of one sort drives out another."""
_RECORD_BYTES = 8192
_MOST_FILE_BYTES = 16 << 20


def read(path: str, *, everything: bool = False) -> list[tuple[int, int, str]]:
    """
    (sequence number, microseconds since boot, text) of the records of one of `SORTS`.

    *everything*: of `MORE_SORTS` too.
    *path* is /dev/kmsg, or a plain file of records as it gives them: `prio,seq,usec,flags;text`.
    Raises OSError where it cannot be read.
    """
    sorts = (*SORTS, *MORE_SORTS) if everything else SORTS
    kept: list[list[bytes]] = [[] for _ in sorts]
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        for record in _from_file(descriptor) if is_file else _from_ring(descriptor):
            _keep(record, sorts, kept)
    finally:
        os.close(descriptor)
    newest = [record for sort in kept for record in sort[-MOST_RECORDS:]]
    return sorted(parsed for record in newest if (parsed := _parse(record)))


def _keep(record: bytes, sorts: tuple[tuple[bytes, ...], ...], kept: list[list[bytes]]) -> None:
    for marks, records in zip(sorts, kept):  # noqa: B905 - as many
        if any(mark in record for mark in marks):
            if _is_of_kernel(record) and not any(
                all(mark in record for mark in marks) for marks in NOISE
            ):
                records.append(record)
                if len(records) > 2 * MOST_RECORDS:
                    del records[:-MOST_RECORDS]
            return


def _is_of_kernel(record: bytes) -> bool:
    """
    Whether no program wrote it into /dev/kmsg, as journald does with what users tell it.

    `prio` is eight times the facility and the level, and the kernel's own facility is 0.
    """
    return record[:1].isdigit() and record[1:2] == b","


def _from_file(descriptor: int) -> list[bytes]:
    return os.pread(descriptor, _MOST_FILE_BYTES, 0).split(b"\n")


def _from_ring(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            record = os.read(descriptor, _RECORD_BYTES)
        except BlockingIOError:  # that was the last one
            return
        except OSError as error:
            if error.errno == errno.EPIPE:  # overwritten meanwhile; the next one follows
                continue
            raise
        if not record:
            return
        yield record


def _parse(record: bytes) -> tuple[int, int, str] | None:
    head, semicolon, rest = record.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 3 or not (fields[1].isdigit() and fields[2].isdigit()):  # noqa: PLR2004 - prio,seq,usec
        return None
    # What follows the first line is a dictionary of the device, ` KEY=value`.
    text = rest.partition(b"\n")[0].replace(b"\\x0a", b"\n")
    return int(fields[1]), int(fields[2]), text.decode("utf-8", "replace")
