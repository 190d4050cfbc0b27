"""Lines that name a fault which ended nothing: traces, quotations, tries that are repeated."""

from pathlib import Path

import pytest

from slurm_resilience.diagnosis.facts import NodeEnd
from slurm_resilience.diagnosis.findings import Diagnosis
from slurm_resilience.diagnosis.policy import decide
from slurm_resilience.diagnosis.sources import left_in
from slurm_resilience.diagnosis.verdict import diagnose

ECC = "CUDA error: uncorrectable ECC error encountered"
KEY = 'Traceback (most recent call last):\n  File "t.py", line 2, in <module>\n    d["x"]\nKeyError: \'x\'\n'

HEARSAY = {
    "trace": f"+ echo 'on {ECC}'\n",
    "echo": f"+ echo 'retry on {ECC}'\nretry on {ECC}\n",
    "note": 'NOTE: on "No space left on device" clean /scratch. On "Disk quota exceeded" call support.\n',
    "data": f'step 1 loss 1\nsample: why does "RuntimeError: {ECC}" happen?\nstep 2 loss 1\n',
    "skipped": "CUDA out of memory during autotune of triton config 3, skipping\nstep 1/10\n",
    "tried again": "WARNING: storage: read failed with [Errno 116] Stale file handle, retrying (1/5)\nstep 2/3\n",
    "caught": "WARNING: caught RuntimeError: CUDA out of memory, skipping the batch\n",
}  # fmt: skip


def diagnosed(directory: Path, log: str) -> Diagnosis:
    path = directory / "slurm-41.out"
    path.write_text(log)
    return decide(left_in([path]))


@pytest.mark.parametrize("name", HEARSAY)
def test_an_exception_outranks_what_merely_names_a_fault(tmp_path: Path, name: str) -> None:
    """The program's last word is what ended it."""
    assert diagnosed(tmp_path, HEARSAY[name] + KEY).cause == "user-error"


@pytest.mark.parametrize("name", [name for name in HEARSAY if name != "trace"])
def test_where_nothing_else_is_said_confidence_is_low(tmp_path: Path, name: str) -> None:
    """It may be the cause still."""
    found = diagnosed(tmp_path, HEARSAY[name])

    assert found.cause != "unknown"
    assert found.confidence == "low"


def test_of_a_training_that_was_done_nothing_is_made_up(tmp_path: Path) -> None:
    """Its hints are none of its faults."""
    log = f'INFO: if you see "{ECC}" call support\nstep 1 loss 2\nTraining finished successfully.\n'

    assert diagnosed(tmp_path, log).cause == "unknown"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("n1:1:2 [0] init.cc:9 NCCL WARN Cuda failure 'out of memory', retrying", "gpu-memory"),
        (f"RuntimeError: {ECC}; retrying would not help", "cuda-ecc"),
        ('SafetensorError: IoError(Os { message: "No space left on device" })', "disk-full"),
        ("slurmstepd: error: Detected 1 oom_kill event, ignored", "host-memory"),
    ],
    ids=["NCCL", "exception", "Rust", "slurmstepd"],
)
def test_what_reports_a_fault_stays_a_cause(tmp_path: Path, line: str, cause: str) -> None:
    """Libraries quote, too, and the kernel and Slurm write no prose."""
    found = diagnosed(tmp_path, f"{line}\n{KEY}")

    assert found.cause == cause
    assert found.confidence != "low"


def test_what_a_log_says_before_an_exception_is_less_sure(tmp_path: Path) -> None:
    """Either may have ended it."""
    line = 'level=error msg="write: No space left on device"\n'

    assert diagnosed(tmp_path, line).confidence == "high"
    found = diagnosed(tmp_path, line + KEY)
    assert (found.cause, found.confidence) == ("disk-full", "low")


def test_the_supervisor_waits_for_more_than_hearsay() -> None:
    """Another node may tell what ended the attempt."""
    told = tuple(HEARSAY["note"].splitlines())

    assert not diagnose((NodeEnd("n1", 1, stderr=told),), nodes=("n1", "n2")).is_clear
