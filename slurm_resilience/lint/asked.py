"""What a script asks of Slurm, in numbers; None where that does not stand in it."""

import math
import re
from collections.abc import Sequence

import msgspec

from slurm_resilience.lint.options import Option

DEFAULT_LEAD_S = 60
"""sbatch's own, where `--signal` names no time."""
_GPU_GRES = re.compile(r"(?:^|,)(?:gres[/:])?gpu((?::[^,:(]+)*)(?=[,(]|$)")
"""`gpu`, `gpu:4`, `gpu:a100:4(S:0-1)` among others: type and count; a name alone is one."""


class Notice(msgspec.Struct, frozen=True):
    """`--signal=[B:]NAME[@SECONDS]`."""

    name: str
    """Without SIG, in capitals."""
    lead_s: int
    to_batch_shell: bool
    line: int


def last(options: Sequence[Option], name: str) -> Option | None:
    """The *name* that counts."""
    return next((one for one in reversed(options) if one.name == name), None)


def nodes(options: Sequence[Option]) -> int | None:
    """At least so many nodes."""
    return _number(options, "nodes")


def tasks_per_node(options: Sequence[Option]) -> int | None:
    """Tasks that srun starts on each node."""
    for name in ("ntasks-per-node", "ntasks"):
        option = last(options, name)
        count = _number(options, name)
        if option is None:
            continue
        if count is None:
            return None
        if name == "ntasks-per-node":
            return count
        spread = nodes(options)
        if spread and count % spread == 0:
            return count // spread
        return None
    gpus_a_task = last(options, "ntasks-per-gpu")
    return None if gpus_a_task else 1


def gpus_per_node(options: Sequence[Option]) -> int | None:
    """GPUs on each node."""
    if option := last(options, "gpus-per-node"):
        return _gpu_count(option.value)
    option = last(options, "gres")
    if option and (parts := _GPU_GRES.findall(option.value or "")):
        return _gpu_count(",".join(part or "1" for part in parts))
    if option := last(options, "gpus"):
        total, spread = _gpu_count(option.value), nodes(options)
        if total and spread and total % spread == 0:
            return total // spread
        return None
    if option := last(options, "gpus-per-task"):
        each, tasks = _gpu_count(option.value), tasks_per_node(options)
        return each * tasks if each and tasks else None
    return None


def time_limit_s(options: Sequence[Option]) -> float | None:
    """Seconds; infinite where it says so."""
    option = last(options, "time")
    return seconds(option.value) if option and option.value else None


def seconds(text: str) -> float | None:
    """Slurm's way to write a time: minutes, m:s, h:m:s, d-h, d-h:m, d-h:m:s."""
    if text.lower() in {"infinite", "unlimited", "-1", "0"}:
        return math.inf
    if not re.fullmatch(r"(?:\d{1,6}-)?\d{1,9}(?::\d{1,9}){0,2}", text):
        return None
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, more = [*parts, 0, 0][:3]
        return int(days) * 86400 + hours * 3600 + minutes * 60 + more
    if len(parts) == 1:
        return parts[0] * 60
    weights = (60, 1) if len(parts) == 2 else (3600, 60, 1)  # noqa: PLR2004 - m:s, or h:m:s
    return sum(part * weight for part, weight in zip(parts, weights, strict=True))


def notice(options: Sequence[Option]) -> Notice | None:
    """The signal before the time limit."""
    option = last(options, "signal")
    found = re.fullmatch(
        r"(?:([BR]+):)?([A-Za-z0-9]+)(?:@(\d{1,6}))?", (option and option.value) or ""
    )
    if option is None or found is None:
        return None
    return Notice(
        signal_name(found[2]),
        int(found[3]) if found[3] else DEFAULT_LEAD_S,
        "B" in (found[1] or ""),
        option.line,
    )


def whole(text: str | None) -> int | None:
    """A whole number of at most nine digits; None for anything else."""
    return int(text) if text and re.fullmatch(r"[0-9]{1,9}", text) else None


_NUMBERS = {"1": "HUP", "2": "INT", "3": "QUIT", "10": "USR1", "12": "USR2", "15": "TERM"}


def signal_name(text: str) -> str:
    """`SIGUSR2`, `usr2` or `12` -> `USR2`."""
    return _NUMBERS.get(text, text.upper().removeprefix("SIG"))


def _number(options: Sequence[Option], name: str) -> int | None:
    option = last(options, name)
    found = re.match(r"(\d{1,7})(?:-\d+)?(?:$|,)", (option and option.value) or "")
    return int(found[1]) if found else None


def _gpu_count(value: str | None) -> int | None:
    """`8`, `h100:8`, `a100:2,h100:2` -> GPUs of all types; None where it is no number."""
    counts = [whole(part.rpartition(":")[2]) for part in (value or "").split(",")]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
