"""
Other people's commands, for probes that have no better source. To be run in a probe's child.

The child ends with its deadline and takes the command with it, so there is no time-out here.
"""

from __future__ import annotations

import os

MOST_BYTES = 4 << 20

_SEARCHED = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"
"""Hooks get no PATH."""


def found(command: str) -> str | None:
    """Where *command* is; None where it is not installed."""
    for folder in _SEARCHED.split(":"):
        path = f"{folder}/{command}"
        if os.access(path, os.X_OK):
            return path
    return None


def output(argv: list[str], *, accept: tuple[int, ...] = (0,)) -> str:
    """
    What *argv* (by absolute path) prints on standard output.

    Raises OSError with the command's own last words where it ends with a status that is not
    in *accept*, or says more than `MOST_BYTES`.
    """
    import resource  # noqa: PLC0415 - not for the prolog
    import subprocess  # noqa: PLC0415

    # Numbers and headings in one language, and nothing of a user's in it.
    environment = {"LC_ALL": "C", "PATH": _SEARCHED, "HOME": "/root"}
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
    said, complaints = os.memfd_create("said"), os.memfd_create("complaints")
    status = subprocess.run(  # noqa: S603 - an absolute path, no shell
        argv,
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=complaints,
        env=environment,
        check=False,
    ).returncode
    text = _all_of(said)
    if status not in accept:
        words = (_all_of(complaints) or text).split("\n")
        last = next(
            (line.strip() for line in reversed(words) if line.strip()), "without a word"
        )
        raise OSError(f"{argv[0]} ended with status {status}: {last}")
    return text


def _all_of(descriptor: int) -> str:
    return os.pread(descriptor, MOST_BYTES, 0).decode("utf-8", "replace")
