"""
Lines that name a fault without reporting one: a shell's trace, words in quotes, a try that is repeated.

What follows from them counts less than an exception, or than how a process ended.
"""

import re

from slurm_resilience.diagnosis.lines import unprefixed
from slurm_resilience.diagnosis.rules.kernel import is_of_kernel
from slurm_resilience.diagnosis.rules.row import Row

TRACE = re.compile(r"^\++ ")
"""What `bash -x` puts before a command."""
_REPORTS = re.compile(
    r"\bNCCL (?:WARN|INFO|ERROR)\b|ProcessGroup|slurmstepd|\bsrun: |libfabric:"
)
"""Who prints faults and no prose."""
_RAISED = r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Failure)\b"
_RAISES = re.compile(rf"^{_RAISED}")
_NAMES_RAISED = re.compile(rf"(?:^|[\s\]:)]){_RAISED}")
_QUOTED = re.compile(r'(?<![:=(\[{,])(?:(?<=\w )|(?<=^))"[^"]*"')
"""Behind a word, as in prose; behind a colon or a bracket a library quotes what went wrong."""
_GOES_ON = re.compile(
    r"\b(?:retrying|(?:will|to) retry|retry on|skipp(?:ed|ing)|ignor(?:ed|ing)|trying again|falling back|if you see)\b",
    re.IGNORECASE,
)


def is_hearsay(row: Row, line: str) -> bool:
    """Whether *line*, which meets *row*, says less than that the fault ended the program."""
    if row.role != "cause" or _is_reporter(line):
        return False
    rest = unprefixed(line).strip()
    if _GOES_ON.search(rest) and not _RAISES.match(rest):
        return True
    quoted = tuple(_QUOTED.finditer(rest))
    if not quoted or _NAMES_RAISED.search(_QUOTED.sub("", rest)):
        return False
    found = tuple(re.finditer(row.pattern, rest))
    return bool(found) and all(
        any(quote.start() < one.end() <= quote.end() for quote in quoted) for one in found
    )


def is_prose(line: str) -> bool:
    """Whether *line* is neither an exception's nor from one who reports faults and nothing else."""
    return not (_is_reporter(line) or _RAISES.match(unprefixed(line).strip()))


def _is_reporter(line: str) -> bool:
    return _REPORTS.search(line) is not None or is_of_kernel(line)
