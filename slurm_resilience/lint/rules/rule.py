"""What a rule is."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from slurm_resilience.lint.findings import Finding
from slurm_resilience.lint.view import View

Judge = Callable[[View], Iterator[Finding]]


class Rule(NamedTuple):
    """One rule: what it looks for, why that matters, what helps."""

    id: str
    judge: Judge
    why: str
    fix: str
    safe: bool = False
    """Whether `--fix` mends it."""
