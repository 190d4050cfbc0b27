"""Logs of real dead jobs, each judged from its file as `diagnose` judges it."""

from pathlib import Path

import pytest

from tests.logs.judging import LOGS, SET_ASIDE, Case, cases, diagnosed, faults

SET_ASIDE_RIGHT = 0.7
"""A little under what was measured (21 of 28): see the README beside the logs."""


@pytest.mark.parametrize(
    "case",
    [case for case in cases() if case.file not in SET_ASIDE],
    ids=lambda case: case.file,
)
def test_a_dead_job_gets_its_verdict(case: Case) -> None:
    """Class, retry and suspects are right, and no victim is blamed."""
    assert faults(case) == []


def test_logs_that_no_rule_was_written_for_are_mostly_right() -> None:
    """Those that were set aside show what to expect of a log that nobody has seen."""
    aside = [case for case in cases() if case.file in SET_ASIDE and case.file < "7"]
    wrong = [case.file for case in aside if faults(case)]

    assert {case.file for case in cases()} >= SET_ASIDE
    assert 1 - len(wrong) / len(aside) >= SET_ASIDE_RIGHT, wrong


def test_every_log_stands_in_the_table_and_the_other_way_round() -> None:
    """A log without a verdict tests nothing."""
    assert sorted(case.file for case in cases()) == sorted(
        path.name for path in LOGS.glob("*.log")
    )


def test_the_deciding_line_is_quoted_with_its_place() -> None:
    """One can go and look: file and number are those of the line that is shown."""
    for case in cases():
        for line in diagnosed(case).evidence:
            assert line.line is not None
            text = Path(line.file).read_text().splitlines()[line.line - 1]
            assert line.text.strip("…").split(" (came ")[0] in text
