"""
Which line of a dead attempt stands for which fault: tables by subject, the surest rows first.

A line belongs to the first row that it matches. What a match is worth beside others, `policy` says.
"""

import re
from functools import lru_cache

from slurm_resilience.diagnosis.rules.fabric import NETWORK_CAUSES, NETWORK_FALLOUT
from slurm_resilience.diagnosis.rules.gpu import GPU_ROWS
from slurm_resilience.diagnosis.rules.host import (
    CHECKPOINT_ROWS,
    MEMORY_ROWS,
    PROCESS_ENDS,
    STORAGE_ROWS,
)
from slurm_resilience.diagnosis.rules.kernel import KERNEL_ROWS, kernel_row
from slurm_resilience.diagnosis.rules.program import PROGRAM_ROWS
from slurm_resilience.diagnosis.rules.row import TOLD_STATUS, Row
from slurm_resilience.diagnosis.rules.slurm import SLURM_CAUSES, SLURM_ENDS, SLURM_STATES

_BEFORE_KERNEL = (*SLURM_STATES, *GPU_ROWS)
_AFTER_KERNEL = (
    *SLURM_CAUSES, *STORAGE_ROWS, *MEMORY_ROWS, *CHECKPOINT_ROWS, *PROGRAM_ROWS, *NETWORK_CAUSES,
    *PROCESS_ENDS, *SLURM_ENDS, *NETWORK_FALLOUT,
)  # fmt: skip

MISUSED = Row(
    "usage", r"^\S+: (?:error: |can't open file )|^Error: ", "user-error", "stop",
    "the command line is wrong; a retry would end the same way", "argparse, click, Python",
    "tr.py: error: unrecognized arguments: --bogus 3", confidence="high",
)  # fmt: skip
"""Of a program that ended with `MISUSE`: as argparse, click and Python itself say it."""
MISUSE = 2

USER_ERROR = Row(
    "user-error", "", "user-error", "stop",
    "a retry would raise it again: mend the program or its input",
    "VICO-UoE/MTPSL#3", "", confidence="high",
)  # fmt: skip
FINISHED = Row(
    "finished", "", "unknown", "stop", "Slurm's record says that the job completed", "Slurm: sacct(1)",
    "", "state", confidence="high",
)  # fmt: skip
TOGETHER = Row(
    "nodes-lost-together", "", "power", "exclude-node",
    "several nodes went within seconds: a power feed, a rack or a switch rather than each node; with"
    " --requeue Slurm brings the job back",
    "requirement R10 of cluster operators", "", "state", "named", 2,
)  # fmt: skip
STUCK_TOGETHER = Row(
    "gpu-calls-stuck", "", "software", "same-nodes",
    "GPU calls of several ranks did not come back at once: a dead lock, or a hang after the training's"
    " end; do not retry where the last step was done",
    "modelscope/ms-swift#7992", "",
)  # fmt: skip
UNKNOWN = Row(
    "unknown", "", "unknown", "same-nodes", "no line says why", "", "", "exit", confidence="low"
)

ROWS = (*_BEFORE_KERNEL, *KERNEL_ROWS, *_AFTER_KERNEL)
"""Every rule that a line of text can meet."""
NO_LINES = (MISUSED, USER_ERROR, FINISHED, TOGETHER, STUCK_TOGETHER, UNKNOWN)
"""Found by more than one line, or by none."""
ALL = (*ROWS, *NO_LINES)

_PATTERNS: dict[int, "re.Pattern[str]"] = {id(row): re.compile(row.pattern) for row in ROWS}

STATUS = re.compile(TOLD_STATUS.format(r"(-?\d+)"))
"""How a launcher tells the end of what it started: the status, below zero a signal."""
TORCHRUN_END = re.compile(r"failed \(exitcode: -?\d+\) local_rank: ")
"""From here on torchrun speaks of itself: a traceback of its own, and a table."""
TORCHRUN_LOG = re.compile(r"torch[./]distributed[./](?:run|elastic|launcher)\b")
DONE = re.compile(
    r"^finished: step \d+|Training completed\. Do not forget|`Trainer\.fit` stopped: `max_"
    r"|\b[Tt]raining (?:is |has )?(?:completed|finished|done)\b"
)
"""A program's own word that the training's work is whole."""
SURVIVED = re.compile(r"; training goes on$")
"""Our own word for trouble that a program lived through: not what ended it."""


@lru_cache(maxsize=4096)
def row_of(line: str) -> Row | None:
    """The rule that *line* meets, None where it meets none."""
    for row in _BEFORE_KERNEL:
        if _PATTERNS[id(row)].search(line):
            return row
    kernel = kernel_row(line)
    if kernel is not None:
        return kernel
    for row in _AFTER_KERNEL:
        if _PATTERNS[id(row)].search(line):
            return row
    return None


def named(row: Row, line: str) -> dict[str, str]:
    """What the row's named groups say of *line*."""
    found = re.search(row.pattern, line)
    return {key: value for key, value in found.groupdict().items() if value} if found else {}


def explained(id_: str) -> tuple[Row, ...]:
    """The rows of one id; several, where a fault has several ways to show."""
    return tuple(row for row in ALL if row.id == id_)
