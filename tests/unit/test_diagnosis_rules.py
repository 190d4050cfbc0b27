"""The rules one by one, and what `--explain` and the page say of them."""

import subprocess
import sys
from pathlib import Path

import pytest

from slurm_resilience.diagnosis.log_file import NEAR_WORDS
from slurm_resilience.diagnosis.rules import ALL, MISUSED, ROWS, explained, row_of
from slurm_resilience.diagnosis.rules.row import Row

ROOT = Path(__file__).parents[2]


def name(row: Row) -> str:
    return f"{row.id}-{ALL.index(row)}"


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_rule_meets_the_line_that_it_was_learnt_from(row: Row) -> None:
    """And no earlier rule takes that line away."""
    found = row_of(row.line)

    assert found is not None
    assert (found.id, found.class_, found.retry) == (row.id, row.class_, row.retry)


@pytest.mark.parametrize("row", ROWS, ids=name)
def test_a_rules_line_is_found_in_a_file(row: Row) -> None:
    """Lines are only cut out around a few words: each rule's line holds one of them."""
    assert any(word in row.line.encode() for word in NEAR_WORDS)


@pytest.mark.parametrize("row", ALL, ids=name)
def test_a_rule_can_be_explained(row: Row) -> None:
    """It has advice, and, where a line can meet it, a source."""
    assert row.advice
    assert row in explained(row.id)
    assert row.source or not row.line


@pytest.mark.parametrize(
    "line",
    [
        "step 3 loss 0.5 error 0.01",
        "Epoch 3: validation error 0.2, out of 100 samples",
        "INFO saving checkpoint at 14 epochs",
        "NCCL INFO [Service thread] Connection established",
        "slurmstepd: task_p_pre_launch: Using sched_affinity for tasks",
        "srun: job 4711 queued and waiting for resources",
        "[rank0]: UserWarning: the lr scheduler was called before the optimizer",
        "kernel: NVRM: Xid (PCI:0000:00:05): 43, pid=1045242, name=pt_main_thread, Ch 00000008",
    ],
)
def test_a_harmless_line_meets_no_rule(line: str) -> None:
    """What a healthy job prints accuses nobody."""
    assert row_of(line) is None


def test_a_wrong_command_line_counts_only_with_its_exit_status() -> None:
    """`error:` at the beginning of a line says nothing by itself."""
    assert row_of(MISUSED.line) is None


def test_the_page_of_rules_is_up_to_date() -> None:
    """docs/diagnosis.md says what the tables say."""
    page = subprocess.run(
        [sys.executable, ROOT / "scripts" / "diagnosis_docs.py"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    ).stdout

    assert (ROOT / "docs" / "diagnosis.md").read_text() == page
