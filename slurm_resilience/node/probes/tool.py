"""
Other people's commands, for probes that have no better source. To be run in a probe's child.

The child ends with its deadline and takes the command with it, so there is no time-out here.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from collections.abc import Container, Iterable
    from typing import Any

MOST_BYTES = 4 << 20

ANY_STATUS = range(256)
"""For tools whose status says what they found: then their words decide alone."""

_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""For what a tool starts itself: hooks get no PATH."""

_OTHERS_MAY_WRITE = 0o022


def found(command: str, folders: Iterable[str]) -> str | None:
    """
    Where *command* is in *folders*; None where it is not installed.

    As root only a file that root alone can have written: somebody else's is passed over.
    """
    for folder in folders:
        path = f"{folder}/{command}"
        if os.access(path, os.X_OK) and _is_trusted(path):
            return path
    return None


def _is_trusted(path: str) -> bool:
    if os.geteuid() != 0:
        return True
    file = os.stat(path)
    return file.st_uid == 0 and not file.st_mode & _OTHERS_MAY_WRITE


def output(argv: list[str], *, accept: Container[int] = (0,)) -> str:
    """
    What *argv* (by absolute path) prints on standard output.

    Raises OSError with the command's own last words where it ends with a status that is not
    in *accept* or by a signal, or says more than `MOST_BYTES`.
    """
    import resource  # noqa: PLC0415 - not for the prolog
    import subprocess  # noqa: PLC0415

    # Numbers and headings in one language, and nothing of a user's in it.
    environment = {"LC_ALL": "C", "PATH": _PATH, "HOME": "/root"}
    said, complaints = os.memfd_create("said"), os.memfd_create("complaints")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, hard))
    try:
        status = subprocess.run(  # noqa: S603 - an absolute path, no shell
            argv,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=complaints,
            env=environment,
            check=False,
        ).returncode
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    text = _all_of(said)
    if os.fstat(said).st_size >= MOST_BYTES:
        raise OSError(f"{argv[0]} said more than {MOST_BYTES} bytes")
    if status not in accept:
        words = f"{text}\n{_all_of(complaints)}".split("\n")
        last = next(
            (line.strip() for line in reversed(words) if line.strip()), "without a word"
        )
        raise OSError(f"{argv[0]} ended with status {status}: {last}")
    return text


def document(argv: list[str], *, accept: Container[int] = (0,)) -> dict[str, Any]:
    """
    The JSON object that *argv* prints; what it says before it does not count.

    Raises OSError as `output` does, and for anything that is not one JSON object.
    """
    import json  # noqa: PLC0415 - not for the prolog

    text = output(argv, accept=accept)
    begin = text.find("{")
    try:
        value = json.loads(text[begin:]) if begin >= 0 else None
    except ValueError as error:
        raise OSError(f"{argv[0]} said what is not JSON: {error}") from error
    if not isinstance(value, dict):
        said = text.strip().partition("\n")[0]
        raise OSError(f"{argv[0]} said no JSON: {said or 'nothing'}")
    return value


def _all_of(descriptor: int) -> str:
    return os.pread(descriptor, MOST_BYTES, 0).decode("utf-8", "replace")
