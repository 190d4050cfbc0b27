"""The table of verdicts beside the logs, and what a diagnosis has wrong."""

from pathlib import Path
from typing import NamedTuple

from slurm_resilience.diagnosis.findings import Diagnosis
from slurm_resilience.diagnosis.policy import decide
from slurm_resilience.diagnosis.sources import left_in

LOGS = Path(__file__).parent
SET_ASIDE = frozenset((LOGS / "set-aside.txt").read_text().split())


class Case(NamedTuple):
    """A row of verdicts.tsv."""

    file: str
    classes: frozenset[str]
    retries: frozenset[str]
    suspects: tuple[frozenset[str], ...]
    """Each a set that is right; an empty one: nobody may be named."""
    blameless: frozenset[str]


def cases() -> list[Case]:
    """All of the table, in its order."""
    rows = [line.split("\t") for line in (LOGS / "verdicts.tsv").read_text().splitlines()[1:]]
    return [
        Case(
            file,
            frozenset(classes.split("|")),
            frozenset(retries.split("|")),
            tuple(words(choice) for choice in suspects.split("|")),
            words(blameless),
        )
        for file, classes, retries, suspects, blameless, _ in rows
    ]


def words(text: str) -> frozenset[str]:
    return frozenset() if text == "-" else frozenset(text.split(","))


def accused(diagnosis: Diagnosis) -> set[str]:
    """Suspects in the table's words."""
    found: set[str] = set()
    for one in diagnosis.suspects:
        found |= {f"rank:{one.rank}"} if one.rank is not None else set()
        found |= {f"node:{one.node}"} if one.node else set()
        found |= {f"local-rank:{one.local_rank}"} if one.local_rank is not None else set()
    return found


def diagnosed(case: Case) -> Diagnosis:
    """As `diagnose` has it."""
    return decide(left_in([LOGS / case.file]))


def faults(case: Case) -> list[str]:
    """What the diagnosis of a case has wrong."""
    diagnosis = diagnosed(case)
    named = accused(diagnosis)
    either = frozenset().union(*case.suspects)
    is_named_right = named in case.suspects or (
        bool(named) and named <= either and all(len(choice) <= 1 for choice in case.suspects)
    )
    wrong = [
        f"class {diagnosis.class_}" if diagnosis.class_ not in case.classes else "",
        f"retry {diagnosis.retry}" if diagnosis.retry not in case.retries else "",
        f"suspects {named}" if not is_named_right or named & case.blameless else "",
    ]
    return [f"{text} by {diagnosis.cause}" for text in wrong if text]
