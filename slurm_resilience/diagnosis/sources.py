"""Files and folders that a person names -> logs, error files and incidents in them."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from slurm_resilience.diagnosis.error_file import ErrorFile, as_traceback
from slurm_resilience.diagnosis.facts import Left, Record, Said
from slurm_resilience.diagnosis.lines import seconds_in_year
from slurm_resilience.diagnosis.logs import read_left
from slurm_resilience.diagnosis.traceback import is_source
from slurm_resilience.errors import UntrustedFileError, UsageError
from slurm_resilience.files import read_bounded
from slurm_resilience.incident import Incident
from slurm_resilience.run_directory import parse_incident

MOST_FILES = 4096
MOST_DEEP = 8
MOST_BYTES = 4 << 20
INCIDENT = "incident.json"
_ERRORS = re.compile(r"(?:rank-\d+\.)?error\.json")
_LOGS = re.compile(
    r".*(?:\.log|\.out|\.err|\.txt|stdout|stderr|messages|syslog|dmesg)(?:\.\d+)?"
)
_RANK = re.compile(r"rank-(\d+)\.error\.json|(?:^|/)(\d+)/error\.json")
_ATTEMPT = re.compile(r"attempt[-_](\d+)")


class _Told(msgspec.Struct):
    """torch's `@record` puts one object inside another."""

    message: "str | _Told" = ""
    extraInfo: dict[str, str | int | float | None] = {}  # noqa: N815 - torch's name


def left_in(
    paths: Sequence[Path],
    *,
    record: Record | None = None,
    domains: dict[str, str] | None = None,
    may_be_empty: bool = False,
) -> Left:
    """
    Everything that *paths* (files, or folders of one attempt) say.

    Of a folder that holds several attempts (`attempt-0`, `attempt_1`) only the last one counts.
    Raises `UsageError` naming what cannot be read, or holds nothing.
    """
    logs: list[Path] = []
    said: list[Said] = []
    incidents: list[Incident] = []
    for path in paths:
        found = list(_inside(path)) if path.is_dir() else [path]
        if not found and not may_be_empty:
            raise UsageError(f"{path}: no log in there; give a log file or a folder of them")
        for file in found:
            if file.name == INCIDENT:
                incidents += _incident(file, must=not path.is_dir())
            elif _ERRORS.fullmatch(file.name):
                said += _error(file, must=not path.is_dir())
            else:
                logs.append(file)
    left = read_left(logs, record=record, domains=domains)
    last = max(incidents, key=lambda one: one.attempt, default=None)
    return msgspec.structs.replace(left, said=(*said, *left.said), incident=last)


def _inside(directory: Path) -> Iterator[Path]:
    """Logs, error files and incidents, no link followed; of attempts the last."""
    count = 0
    for root, folders, names in os.walk(directory):
        attempts = sorted(
            (int(found[1]), name) for name in folders if (found := _ATTEMPT.fullmatch(name))
        )
        if attempts:
            folders[:] = [name for name in folders if not _ATTEMPT.fullmatch(name)]
            folders.append(attempts[-1][1])
        if len(Path(root).relative_to(directory).parts) >= MOST_DEEP:
            folders.clear()
        folders.sort()
        for name in sorted(names):
            path = Path(root, name)
            wanted = name == INCIDENT or _ERRORS.fullmatch(name) or _LOGS.fullmatch(name)
            if wanted and path.is_file() and not path.is_symlink():
                count += 1
                if count > MOST_FILES:
                    raise UsageError(
                        f"{directory}: more than {MOST_FILES} logs; give the folder of one attempt"
                    )
                yield path


def _incident(path: Path, *, must: bool) -> Iterator[Incident]:
    try:
        yield parse_incident(read_bounded(path, most_bytes=MOST_BYTES), path)
    except (UntrustedFileError, OSError) as error:
        if must:
            raise UsageError(str(error)) from error


def _error(path: Path, *, must: bool) -> Iterator[Said]:
    """What an exception left, as if it had been printed; a file that is none is passed over."""
    try:
        data = read_bounded(path, most_bytes=MOST_BYTES)
        lines, at = _printed(data)
    except (UntrustedFileError, OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        if must:
            raise UsageError(f"{path}: not an error file of torch: {error}") from error
        return
    found = _RANK.search(str(path))
    rank = int(found[1]) if found and found[1] else None
    local = int(found[2]) if found and found[2] else None
    for index, line in enumerate(lines):
        if is_source(line, lines[:index]):
            continue
        yield Said(
            line,
            str(path),
            offset=index,
            at=at,
            before=tuple(lines[:index]),
            rank=rank,
            local_rank=local,
        )


def _printed(data: bytes) -> tuple[list[str], float | None]:
    try:
        ours = msgspec.json.decode(data, type=ErrorFile)
    except msgspec.DecodeError:
        told = msgspec.json.decode(data, type=_Told)
        inner = told.message if isinstance(told.message, _Told) else told
        text = str(inner.extraInfo.get("py_callstack") or "")
        stamp = inner.extraInfo.get("timestamp")
        return [*text.splitlines(), str(inner.message)], _of_year(stamp)
    return as_traceback(ours).splitlines(), _of_year(ours.at or None)


def _of_year(stamp: str | float | None) -> float | None:
    """Unix seconds -> as `lines.seconds_of` counts, in local time as logs are written."""
    try:
        parts = time.localtime(float(stamp)) if stamp is not None else None
    except (ValueError, OverflowError, OSError):
        return None
    if parts is None:
        return None
    return seconds_in_year(
        parts.tm_mon, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec
    )
