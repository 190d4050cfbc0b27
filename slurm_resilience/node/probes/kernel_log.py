"""The kernel log since boot: the records that a rule could want, unjudged."""

import errno
import os
import stat

MARKS = (b"NVRM", b"SXid", b"mlx5_core", b"blocked for more than")
"""A record without any of these is of no use here."""
MOST_RECORDS = 4096
"""Of those that are kept; the newest stay."""
_RECORD_BYTES = 8192
_MOST_FILE_BYTES = 16 << 20


def read(path: str) -> list[tuple[int, int, str]]:
    """
    (sequence number, microseconds since boot, text) of the records with one of `MARKS`.

    *path* is /dev/kmsg, or a plain file of records as it gives them: `prio,seq,usec,flags;text`.
    Raises OSError where it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            raw = os.pread(descriptor, _MOST_FILE_BYTES, 0).split(b"\n")
            kept = [record for record in raw if any(mark in record for mark in MARKS)]
        else:
            kept = _from_ring(descriptor)
    finally:
        os.close(descriptor)
    return [parsed for record in kept[-MOST_RECORDS:] if (parsed := _parse(record))]


def _from_ring(descriptor: int) -> list[bytes]:
    kept: list[bytes] = []
    while True:
        try:
            record = os.read(descriptor, _RECORD_BYTES)
        except BlockingIOError:  # that was the last one
            return kept
        except OSError as error:
            if (
                error.errno == errno.EPIPE
            ):  # overwritten while it was read; the next one follows
                continue
            raise
        if not record:
            return kept
        if any(mark in record for mark in MARKS):
            kept.append(record)


def _parse(record: bytes) -> tuple[int, int, str] | None:
    head, semicolon, rest = record.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 3 or not (fields[1].isdigit() and fields[2].isdigit()):  # noqa: PLR2004 - prio,seq,usec
        return None
    # What follows the first line is a dictionary of the device, ` KEY=value`.
    text = rest.partition(b"\n")[0].replace(b"\\x0a", b"\n")
    return int(fields[1]), int(fields[2]), text.decode("utf-8", "replace")
