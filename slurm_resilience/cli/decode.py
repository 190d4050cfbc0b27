"""`decode`: what a kernel log tells of faulty hardware, on any machine."""

import argparse
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from slurm_resilience.cli.printing import print_json, show
from slurm_resilience.errors import UsageError

if TYPE_CHECKING:
    from slurm_resilience.node.decoding import Decoded

_MOST_LINE = 1 << 16
_NULL, _KMSG = os.makedev(1, 3), os.makedev(1, 11)
"""Linux's numbers of /dev/null and /dev/kmsg."""
_COMPRESSED = {b"\x1f\x8b": "zcat", b"\xfd7zXZ": "xzcat", b"\x28\xb5\x2f\xfd": "zstdcat"}


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    decode = commands.add_parser(
        "decode",
        help="what a kernel log tells of faulty hardware",
        description="Read kernel logs (dmesg, journalctl, syslog, /dev/kmsg) and say what each fault "
        "in them asks for: ignore, warn, drain-when-idle, drain, or unknown. Changes nothing. "
        "Exit status 0: read; 2: could not read.",
    )
    decode.add_argument("files", nargs="+", metavar="FILE", help="a log (-: stdin)")
    decode.add_argument("--json", action="store_true", help="one JSON document")
    decode.add_argument(
        "--config", type=Path, metavar="FILE", help="judge as this configuration says"
    )
    decode.set_defaults(do=_decode)


def _decode(arguments: argparse.Namespace) -> int:
    from slurm_resilience.config import load  # noqa: PLC0415
    from slurm_resilience.node.decoding import decode  # noqa: PLC0415
    from slurm_resilience.node.settings import NodeSettings  # noqa: PLC0415

    settings = load(arguments.config).node if arguments.config else NodeSettings()
    events = [
        event for name in arguments.files for event in decode(_lines(name), settings, file=name)
    ]
    if arguments.json:
        print_json({"events": events})
    else:
        for event in events:
            show(_told(event))
        if not events:
            print("nothing that tells of a fault")
    return 0


def _lines(name: str) -> Iterator[str]:
    try:
        if name != "-":
            yield from _of_file(name)
        elif sys.stdin is None:
            raise UsageError("-: standard input is closed")
        else:
            _refuse_devices(0, name)
            yield from _of(sys.stdin.buffer, name)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error


def _of_file(name: str) -> Iterator[str]:
    # Not waiting: nobody may ever write to a named pipe.
    with open(name, "rb", opener=_not_waiting) as file:
        descriptor = file.fileno()
        found = os.fstat(descriptor)
        if stat.S_ISCHR(found.st_mode) and found.st_rdev == _KMSG:
            yield from _of_ring(descriptor)
            return
        _refuse_devices(descriptor, name)
        begun = b""
        if stat.S_ISFIFO(found.st_mode):
            begun = _begun(descriptor, name)
            os.set_blocking(descriptor, True)
        yield from _of(file, name, begun)


def _not_waiting(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK)


def _refuse_devices(descriptor: int, name: str) -> None:
    """A disk or /dev/zero is no log, and has no end."""
    found = os.fstat(descriptor)
    is_device = stat.S_ISBLK(found.st_mode) or stat.S_ISCHR(found.st_mode)
    if is_device and found.st_rdev != _NULL and not os.isatty(descriptor):
        raise UsageError(f"{name}: a device; a log is a file, a pipe, - or /dev/kmsg")


def _begun(descriptor: int, name: str) -> bytes:
    """The first byte of a pipe, where it is there already."""
    try:
        first = os.read(descriptor, 1)
    except BlockingIOError:  # somebody will write it
        return b""
    # What a shell's `<(…)` ran may have ended without a word; a pipe with a name waits for somebody.
    if not first and not name.startswith(("/dev/fd/", "/proc/")):
        raise UsageError(f"{name}: a pipe that nobody writes to")
    return first


def _of_ring(descriptor: int) -> Iterator[str]:
    """The records that the kernel holds now."""
    while True:
        try:
            record = os.read(descriptor, _MOST_LINE)
        except BlockingIOError:  # that was the last one
            return
        except BrokenPipeError:  # overwritten meanwhile; the next one follows
            continue
        yield record.partition(b"\n")[0].decode("utf-8", "replace")


def _of(file: IO[bytes], name: str, begun: bytes = b"") -> Iterator[str]:
    raw = begun + file.readline(_MOST_LINE)
    for magic, command in _COMPRESSED.items():
        if raw.startswith(magic):
            raise UsageError(
                f"{name}: compressed; {command} {name} | slurm-resilience decode -"
            )
    while raw:
        yield raw.decode("utf-8", "replace")
        raw = file.readline(_MOST_LINE)


def _told(event: "Decoded") -> str:
    code = "" if event.code is None else f" {event.code}"
    shown = f"{event.time:.6f}" if isinstance(event.time, float) else event.time
    time = "" if shown is None else f"  [{shown}]"
    times = f", {event.count} times" if event.count > 1 else ""
    return (
        f"{event.verdict:>16}  {event.kind}{code} {event.subject}{time}: {event.text}"
        f" ({event.why}){times}"
    )
