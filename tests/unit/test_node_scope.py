"""Which GPUs belong to the job, in every way Slurm has named them."""

import pytest

from slurm_resilience.node.facts import GpuFacts, NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.scope import NODE, scope_of
from slurm_resilience.node.visit import in_scope

GPUS = tuple(
    GpuFacts(index, uuid=f"GPU-00000000-0000-0000-0000-00000000000{index}", minor=index)
    for index in range(8)
)


@pytest.mark.parametrize(
    ("environment", "held"),
    [
        ({"SLURM_JOB_GPUS": "1"}, {1}),
        ({"SLURM_JOB_GPUS": "0,2,5"}, {0, 2, 5}),
        ({"SLURM_JOB_GPUS": "0-2,5"}, {0, 1, 2, 5}),
        ({"SLURM_JOB_GPUS": "3", "CUDA_VISIBLE_DEVICES": "0"}, {3}),
        ({"CUDA_VISIBLE_DEVICES": "1"}, {1}),
        ({"CUDA_VISIBLE_DEVICES": "GPU-00000000-0000-0000-0000-000000000001"}, {1}),
        ({"CUDA_VISIBLE_DEVICES": "MIG-GPU-00000000-0000-0000-0000-000000000001/12/0"}, {1}),
        ({"CUDA_VISIBLE_DEVICES": ""}, set()),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, set()),
        ({}, set()),
    ],
)
def test_the_jobs_gpus_are_found(environment: dict[str, str], held: set[int]) -> None:
    """By the node's numbers, by UUID, by the parent of a MIG device; no name, no GPU."""
    scope = scope_of(environment)

    assert {gpu.index for gpu in GPUS if scope.holds(gpu)} == held
    assert bool(scope) == bool(held)


@pytest.mark.parametrize(
    "text",
    ["MIG-00000000-0000-0000-0000-0000000000a0", "one", "-1", "0,x", "0-999999999", "1-", "²"],
)
def test_what_cannot_be_understood_is_every_gpu(text: str) -> None:
    """A name that is not understood must never mean that nothing is looked at."""
    scope = scope_of({"SLURM_JOB_GPUS": text})

    assert all(scope.holds(gpu) for gpu in GPUS)


def test_a_driver_that_counts_otherwise_hides_no_gpu() -> None:
    """Slurm numbers by device file, NVML by PCI address; a fault on either one counts."""
    scope = scope_of({"SLURM_JOB_GPUS": "4"})

    assert scope.holds(GpuFacts(0, minor=4))
    assert scope.holds(GpuFacts(4, minor=0))
    assert not scope.holds(GpuFacts(1, minor=1))


ELSEWHERE = Finding("ecc-uncorrected", Severity.DRAIN_WHEN_IDLE, "gpu7", "2 errors", gpu=7)
HERE = Finding("row-remap-failed", Severity.DRAIN, "gpu1", "needs replacing", gpu=1)
WHOLE = Finding("gpu-missing", Severity.DRAIN, "node", "7 of 8 GPUs")
LINK = Finding("link-down", Severity.DRAIN, "mlx5_0:1", "DOWN")


@pytest.mark.parametrize(
    ("gpus", "kept"),
    [("0,1", (HERE, WHOLE, LINK)), ("", (LINK,)), ("?", (ELSEWHERE, HERE, WHOLE, LINK))],
)
def test_a_job_is_judged_by_its_own_gpus(gpus: str, kept: tuple[Finding, ...]) -> None:
    """Another job's GPU stops nobody; a job without GPUs is stopped by none."""
    facts = NodeFacts("n1", gpus=GPUS)

    found = in_scope((ELSEWHERE, HERE, WHOLE, LINK), facts, scope_of({"SLURM_JOB_GPUS": gpus}))

    assert found == kept
    assert bool(NODE)
