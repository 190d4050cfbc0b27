"""`decode`: what a kernel log tells of faulty hardware, on any machine."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from slurm_resilience.cli.printing import print_json, show
from slurm_resilience.errors import UsageError

if TYPE_CHECKING:
    from slurm_resilience.node.decoding import Decoded

_MOST_LINE = 1 << 16
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
        if name == "-":
            yield from _of(sys.stdin.buffer, name)
        else:
            with Path(name).open("rb") as file:
                yield from _of(file, name)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error


def _of(file: IO[bytes], name: str) -> Iterator[str]:
    raw = file.readline(_MOST_LINE)
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
