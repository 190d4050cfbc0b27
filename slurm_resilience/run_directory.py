"""
The run directory: what one job leaves behind for people and for the controller.

    <run directory>/                     named by the job's Comment: slurm-resilience=<path>
        attempt-0/
            heartbeat.json               how far each rank is (replaced every few seconds)
            environment.json             packages, driver, image, commit and arguments of the training
            incident.json                why this attempt ended, and what to do about it
            stacks/rank-3.txt            Python stacks taken before a stalled job was ended
        attempt-1/ …

Each JSON file is written whole or not at all. Readers do not trust it: see `read_incident`.
"""

import re
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from slurm_resilience.comment import TOKEN
from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.files import read_bounded, refusing, replace
from slurm_resilience.incident import Heartbeats, Incident

MOST_BYTES = 1 << 20


def attempt_directory(run_directory: Path, attempt: int) -> Path:
    """Where attempt number *attempt* (the job's restart count) keeps its files."""
    return run_directory / f"attempt-{attempt}"


def write_incident(run_directory: Path, incident: Incident) -> None:
    """Leave *incident* for people and the controller; creates the attempt's directory."""
    _write(attempt_directory(run_directory, incident.attempt) / "incident.json", incident)


def write_heartbeats(run_directory: Path, heartbeats: Heartbeats) -> None:
    """Replace the heartbeat summary of an attempt."""
    _write(attempt_directory(run_directory, heartbeats.attempt) / "heartbeat.json", heartbeats)


def read_incident(
    run_directory: Path, attempt: int, *, owner: int | None = None
) -> Incident | None:
    """
    The incident of an attempt, None where there is none.

    Raises `UntrustedFileError` for a link, an owner other than user id *owner*, more than a
    mebibyte, or anything that is not exactly an incident of this attempt.
    """
    path = attempt_directory(run_directory, attempt) / "incident.json"
    owners = None if owner is None else frozenset({owner})
    try:
        data = read_bounded(path, most_bytes=MOST_BYTES, owners=owners)
    except FileNotFoundError:
        return None
    incident = parse_incident(data, path)
    if incident.attempt != attempt:
        raise refusing(path)(f"speaks of attempt {incident.attempt}")
    return incident


def parse_incident(data: bytes, path: Path) -> Incident:
    """An incident from its JSON text; `UntrustedFileError` names *path* where it is not one."""
    try:
        return msgspec.json.decode(data, type=Incident)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UntrustedFileError(f"{path}: not an incident file: {error}; not used") from error


def read_heartbeats(
    run_directory: Path, attempt: int, *, owner: int | None = None
) -> Heartbeats | None:
    """The heartbeat summary of an attempt, None where there is none; raises as `read_incident`."""
    path = attempt_directory(run_directory, attempt) / "heartbeat.json"
    owners = None if owner is None else frozenset({owner})
    try:
        data = read_bounded(path, most_bytes=MOST_BYTES, owners=owners)
        return msgspec.json.decode(data, type=Heartbeats)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise refusing(path)(f"not a heartbeat file: {error}") from error


def _write(path: Path, value: msgspec.Struct) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, msgspec.json.format(msgspec.json.encode(value)) + b"\n")


# ── the token in the job's Comment ──────────────────────────────────────────────────────────


def run_directory_of(comment: str, *, work_dir: str, job: str) -> Path | None:
    """
    The run directory that a job's Comment names, None where the job takes no part.

    `slurm-resilience=<path>` names it (percent-encoded, `%j` standing for the job id, relative to
    the job's working directory); the bare word means `slurm-resilience/<job id>` there.
    Raises `UntrustedFileError` where what it names cannot be a path.
    """
    for word in comment.split():
        if word == TOKEN:
            return Path(work_dir) / TOKEN / job
        if word.startswith(f"{TOKEN}="):
            text = unquote(word.removeprefix(f"{TOKEN}=").replace("%j", job))
            if not text or "\0" in text:
                raise UntrustedFileError(f"its Comment names no path: {word!r}")
            return Path(work_dir) / text
    return None


def with_run_directory(comment: str, run_directory: Path) -> str:
    """*comment* with our token naming *run_directory*; what others wrote there stays."""
    token = f"{TOKEN}={quote(str(run_directory))}"
    rest = re.sub(rf"(?<!\S){TOKEN}(=\S*)?(?!\S)", " ", comment).split()
    return " ".join([*rest, token])
