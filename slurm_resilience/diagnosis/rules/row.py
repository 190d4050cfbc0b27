"""One rule: a line of text that gives a fault away, and what follows from it."""

from typing import Literal

import msgspec

from slurm_resilience.diagnosis.findings import Advised, Confidence
from slurm_resilience.incident import Class

Role = Literal["state", "cause", "symptom", "outside", "fallout", "exit"]
"""
What a match is worth. `state`: Slurm says why it ended the job. `cause`: names the fault. `symptom`:
how a process ended. `outside`: somebody ended it. `fallout`: what a rank sees when a peer dies or
does not come; who reports it is a victim. `exit`: a bare exit status.
"""

Accuses = Literal["nobody", "reporter", "named", "link", "lone"]
"""
Whom a match accuses. `reporter`: the rank and node that print the line. `named`: what the pattern's
groups `node`, `rank` and `local` name. `link`: the reporter's node and the group `peer`. `lone`:
the reporter, where it is the only rank that says so.
"""

TOLD_STATUS = r"(?:\bexitcode\s*: |\breturn code = |\b(?:error|exit) code )(?:{0})\b"
"""How torchrun (log and closing table), DeepSpeed, srun and others tell the status {0} of a child."""


ROLES = {
    "state": "Slurm itself says so, which outranks other text",
    "cause": "names the fault; the first one counts",
    "symptom": "how a process ended; counts where nothing says why",
    "outside": "somebody ended it; counts where nothing failed before",
    "fallout": "what ranks see when a peer is gone; counts where nothing else does",
    "exit": "a bare exit status; counts last",
}
ACCUSES = {
    "nobody": "accuses nobody",
    "reporter": "accuses the rank and node that print it",
    "named": "accuses whom it names",
    "link": "accuses both ends of the link",
    "lone": "accuses the rank that prints it, where one alone does",
}
"""What a role and an accusation mean, for people."""


class Row(msgspec.Struct, frozen=True):
    """One fault that a line gives away."""

    id: str
    pattern: str
    """Searched in the line, without colours and NULs."""
    class_: Class
    retry: Advised
    advice: str
    """What it means and what to do, in a sentence or two; lower case, no full stop."""
    source: str
    """Where the line was learnt: a thread, a document or a source file."""
    line: str
    """A line as it is really printed, which must match: the rule's test."""
    role: Role = "cause"
    accuses: Accuses = "nobody"
    weight: int = 1
    """Among lines of one role and moment the heaviest decides: 2 names a broken part or a limit that
    was hit, 0 says hardly more than that something went wrong."""
    confidence: Confidence = "medium"
    ended: tuple[int, ...] = ()
    """Exit statuses without which the line is none of the attempt's end; empty: whatever it was."""
    is_source: bool = False
    """A line of code that a traceback quotes; elsewhere such lines tell nothing."""
