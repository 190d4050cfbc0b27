"""What commands print."""

import json
import sys

import msgspec

from slurm_resilience.plain import plain


def show(line: str) -> None:
    """Print a line that holds what others named: reasons, processes, devices, paths."""
    print(plain(line))


def print_json(document: object) -> None:
    """
    Print one JSON document.

    Bytes of a path that are no UTF-8 have no place in JSON and become `?`; a terminal that is not
    Unicode's is given escapes.
    """
    text = msgspec.json.format(
        msgspec.json.encode(_whole(msgspec.to_builtins(document)))
    ).decode()
    if not text.isascii() and not (sys.stdout.encoding or "").lower().startswith("utf"):
        text = json.dumps(json.loads(text), indent=2)
    print(text)


def _whole(told: object) -> object:
    if isinstance(told, str):
        return told.encode(errors="replace").decode()
    if isinstance(told, dict):
        return {_whole(key): _whole(value) for key, value in told.items()}
    return [_whole(one) for one in told] if isinstance(told, list | tuple) else told
