"""Logs of real dead jobs, each judged from its file as `diagnose` judges it."""

from pathlib import Path
from typing import NamedTuple

import pytest

from slurm_resilience.diagnosis.facts import Diagnosis
from slurm_resilience.diagnosis.policy import decide
from slurm_resilience.diagnosis.sources import left_in

LOGS = Path(__file__).parents[1] / "logs"
SET_ASIDE = set((LOGS / "set-aside.txt").read_text().split())
SET_ASIDE_RIGHT = 0.9
"""Measured, never tuned for: see the README beside the logs."""


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


def faults(case: Case) -> list[str]:
    """What the diagnosis of a case has wrong."""
    diagnosis = decide(left_in([LOGS / case.file]))
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


@pytest.mark.parametrize(
    "case", [case for case in cases() if case.file not in SET_ASIDE], ids=lambda case: case.file
)
def test_a_dead_job_gets_its_verdict(case: Case) -> None:
    """Class, retry and suspects are right, and no victim is blamed."""
    assert faults(case) == []


def test_logs_that_no_rule_was_written_for_are_mostly_right() -> None:
    """The third that was set aside shows what to expect of a log that nobody has seen."""
    aside = [case for case in cases() if case.file in SET_ASIDE]
    wrong = [case.file for case in aside if faults(case)]

    assert len(aside) == len(SET_ASIDE)
    assert 1 - len(wrong) / len(aside) >= SET_ASIDE_RIGHT, wrong


def test_every_log_stands_in_the_table_and_the_other_way_round() -> None:
    """A log without a verdict tests nothing."""
    assert sorted(case.file for case in cases()) == sorted(
        path.name for path in LOGS.glob("*.log")
    )


def test_the_deciding_line_is_quoted_with_its_place() -> None:
    """One can go and look: file and number are those of the line that is shown."""
    for case in cases():
        for line in decide(left_in([LOGS / case.file])).evidence:
            assert line.line is not None
            text = Path(line.file).read_text().splitlines()[line.line - 1]
            assert line.text.strip("…").split(" (came ")[0] in text
