"""
The mark: one word in a job's Comment that says that we are bringing the job back.

    slurm-resilience-requeue=<number of the attempt that ends>

It is what tells our hold from a person's: Slurm shows both as JobHeldUser.
"""

import re

_WORD = "slurm-resilience-requeue"
_MARK = re.compile(rf"{_WORD}=([0-9]{{1,9}})")


def marked(comment: str) -> int | None:
    """The attempt that is being brought back from; None where there is no mark."""
    found = (_MARK.fullmatch(word) for word in comment.split())
    return next((int(match[1]) for match in found if match), None)


def with_mark(comment: str, attempt: int) -> str:
    """*comment* with the mark of *attempt*; what others wrote there stays."""
    return f"{without_mark(comment)} {_WORD}={attempt}".strip()


def without_mark(comment: str) -> str:
    """*comment* without any mark."""
    return " ".join(word for word in comment.split() if not word.startswith(f"{_WORD}="))
