"""Logs of real dead jobs, each judged from its file as `diagnose` judges it."""

from pathlib import Path

import pytest

from tests.logs.judging import LOGS, SET_ASIDE, Case, cases, diagnosed, faults

SET_ASIDE_RIGHT = {"6": 0.7, "7": 0.5, "8": 0.65}
"""By draw, a little under what was measured (21 of 28, 25 of 43, 26 of 36): see the README beside the logs."""


@pytest.mark.parametrize(
    "case",
    [case for case in cases() if case.file not in SET_ASIDE],
    ids=lambda case: case.file,
)
def test_a_dead_job_gets_its_verdict(case: Case) -> None:
    """Class, retry and suspects are right, and no victim is blamed."""
    assert faults(case) == []


@pytest.mark.parametrize("draw", SET_ASIDE_RIGHT)
def test_logs_that_no_rule_was_written_for_are_mostly_right(draw: str) -> None:
    """Those that were set aside show what to expect of a log that nobody has seen."""
    aside = [case for case in cases() if case.file in SET_ASIDE and case.file[0] == draw]
    wrong = sum(1 for case in aside if faults(case))

    assert 1 - wrong / len(aside) >= SET_ASIDE_RIGHT[draw]


def test_what_was_set_aside_stands_in_the_table() -> None:
    """A name that is none would be measured by nobody."""
    assert {case.file for case in cases()} >= SET_ASIDE
    assert {file[0] for file in SET_ASIDE} == set(SET_ASIDE_RIGHT)


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
