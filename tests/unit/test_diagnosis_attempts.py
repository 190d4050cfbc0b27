"""Logs to which several attempts were appended, where no banner tells where the last one begins."""

import time
from pathlib import Path

import pytest

from slurm_resilience.diagnosis.findings import Diagnosis
from slurm_resilience.diagnosis.policy import decide
from slurm_resilience.diagnosis.sources import left_in

ECC = "[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
KEY = """\
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    x = cfg["lr"]
KeyError: 'lr'
"""
EXITED = "srun: error: n1: task 0: Exited with exit code 1\n"
OOM = "Traceback (most recent call last):\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n"


def ended(why: str, what: str = "JOB 41") -> str:
    return f"slurmstepd: error: *** {what} ON n1 CANCELLED AT 2026-11-30T01:00:00 DUE TO {why} ***\n"


REQUEUE, PREEMPTED = ended("JOB REQUEUE"), ended("PREEMPTION")
LOST = ended("NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS")


TOO_LATE = """\
srun: got SIGCONT
srun: error: n1: task 0: Terminated
+ echo 'loading checkpoint'
loading checkpoint
+ srun python3 train.py
srun: error: Unable to confirm allocation for job 1: Job is pending execution
srun: Check SLURM_JOB_ID environment variable. Expired or invalid job 1
"""
"""Of a job that was requeued by Slurm 22.05: its script goes on until it is killed, too."""


def diagnosed(directory: Path, log: str) -> Diagnosis:
    path = directory / "slurm-41.out"
    path.write_text(log)
    return decide(left_in([path]))


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (ECC + EXITED + REQUEUE + "+ srun python train.py\nstep 20 loss 1\n" + KEY + EXITED, "user-error"),
        ("step 9 loss 1\n" + LOST + "loading checkpoint\nstep 20 loss 1\n" + KEY + EXITED, "user-error"),
        (LOST + "loading checkpoint\n" + OOM + EXITED, "gpu-memory"),
        (ended("PREEMPTION", "STEP 41.0") + PREEMPTED + "+ export A=1\n+ srun python a.py\n" + KEY + EXITED, "user-error"),
        (ECC + REQUEUE + "+ /usr/bin/srun a\nstep 3\n" + PREEMPTED + EXITED, "slurm-preempted"),
        (REQUEUE + TOO_LATE + "+ '[' -e x ']'\n+ srun python3 train.py\n" + KEY + EXITED, "user-error"),
        (ECC + REQUEUE + "srun: error: n2: task 1: Killed\n++ torchrun train.py\nhello\n", "unknown"),
    ],
    ids=["xtrace", "traceback", "memory", "step and job", "ended again", "too late", "says nothing"],
)  # fmt: skip
def test_a_program_that_begins_again_is_a_new_attempt(
    tmp_path: Path, log: str, cause: str
) -> None:
    """What ended the attempt before it is not told of this one."""
    assert diagnosed(tmp_path, log).cause == cause


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (PREEMPTED + "Traceback (most recent call last):\nKeyboardInterrupt\n" + EXITED, "slurm-preempted"),
        (PREEMPTED + "[rank0]: Traceback (most recent call last):\n[rank0]: torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error\n" + EXITED, "slurm-preempted"),
        (REQUEUE + "+ on_term\n+ echo bye\nbye\nsrun: error: n1: task 0: Terminated\n", "slurm-requeued"),
        (PREEMPTED + "step 10 loss 1\nstep 11 loss 1\nsaved\n", "slurm-preempted"),
        (PREEMPTED + KEY, "slurm-preempted"),
        (LOST, "node-failure"),
        (REQUEUE + TOO_LATE, "slurm-requeued"),
    ],
    ids=["interrupted", "peers", "trap", "last steps", "no exit", "nothing", "too late"],
)  # fmt: skip
def test_last_words_are_no_new_attempt(tmp_path: Path, log: str, cause: str) -> None:
    """Programs speak, and fail, while Slurm ends them."""
    assert diagnosed(tmp_path, log).cause == cause


@pytest.mark.parametrize(
    "log",
    [
        "*** JOB 1 ON " * 300_000 + "\n",
        "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-12-01T00:55:55 ***\n" * 20_000,
        REQUEUE * 40_000,
        ("*** JOB " * 9_000 + " CANCELLED AT \n") * 60,
        ("*** JOB 1 ON " * 5_000 + "\nOMP_NUM_THREADS \n") * 30,
    ],
    ids=["one line", "cancelled", "requeued", "no end", "before banners"],
)
def test_ends_by_the_thousand_are_read_at_once(tmp_path: Path, log: str) -> None:
    """Time grows with the size, whatever is repeated."""
    started = time.process_time()

    assert diagnosed(tmp_path, log).cause

    assert time.process_time() - started < 5
