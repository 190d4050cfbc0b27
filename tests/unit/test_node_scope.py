"""Which GPUs belong to the job, in every way Slurm has named them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience.node.facts import GpuFacts, NodeFacts
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.scope import NODE, scope_of
from slurm_resilience.node.visit import in_scope

UUID = "GPU-00000000-0000-0000-0000-00000000000"
MIG = "MIG-00000000-0000-0000-0000-0000000000a"

GPUS = tuple(
    GpuFacts(index, uuid=f"{UUID}{index}", minor=index, mig=False) for index in range(8)
)
"""Counted alike by Slurm and by NVML."""

COUNTED_OTHERWISE = (
    GpuFacts(0, uuid=f"{UUID}0", minor=2),
    GpuFacts(1, uuid=f"{UUID}1", minor=3),
    GpuFacts(2, uuid=f"{UUID}2", minor=0),
    GpuFacts(3, uuid=f"{UUID}3", minor=1),
)
"""NVML counts by PCI address, the device files by when the driver met them."""

ONE_LOST = (
    GpuFacts(0, uuid=f"{UUID}0", minor=0),
    GpuFacts(1, lost=True),
    GpuFacts(2, uuid=f"{UUID}2", minor=2),
)

CUT_UP = (
    GpuFacts(0, uuid=f"{UUID}0", minor=0, mig=False),
    GpuFacts(1, uuid=f"{UUID}1", minor=1, mig=True, mig_devices=(f"{MIG}0", f"{MIG}1")),
    GpuFacts(2, uuid=f"{UUID}2", minor=2, mig=True, mig_devices=(f"{MIG}2",)),
)

ALL = None
"""All GPUs, because it cannot be told which."""


@pytest.mark.parametrize(
    ("gpus", "environment", "held"),
    [
        pytest.param(GPUS, {"SLURM_JOB_GPUS": "1"}, {1}, id="one"),
        pytest.param(GPUS, {"SLURM_JOB_GPUS": "0,2,5"}, {0, 2, 5}, id="several"),
        pytest.param(GPUS, {"SLURM_JOB_GPUS": "0-2,5"}, {0, 1, 2, 5}, id="a range"),
        pytest.param(GPUS, {"SLURM_JOB_GPUS": "0,,2,"}, {0, 2}, id="stray commas"),
        pytest.param(
            GPUS, {"SLURM_JOB_GPUS": "3", "CUDA_VISIBLE_DEVICES": "0"}, {3}, id="Slurm's word"
        ),
        pytest.param(GPUS, {"CUDA_VISIBLE_DEVICES": "1"}, {1}, id="CUDA's word"),
        pytest.param(GPUS, {"CUDA_VISIBLE_DEVICES": f"{UUID}1"}, {1}, id="UUID"),
        pytest.param(GPUS, {"SLURM_JOB_GPUS": f"{UUID}1,{UUID}4"}, {1, 4}, id="Slurm's UUIDs"),
        pytest.param(
            GPUS,
            {"SLURM_JOB_GPUS": "1", "CUDA_VISIBLE_DEVICES": f"{UUID}1"},
            {1},
            id="both, one as UUID",
        ),
        pytest.param(GPUS, {"CUDA_VISIBLE_DEVICES": f"{UUID}3::0"}, {3}, id="a replica"),
        pytest.param(
            GPUS, {"CUDA_VISIBLE_DEVICES": f"{UUID}3::0,{UUID}3::1"}, {3}, id="two replicas"
        ),
        pytest.param(GPUS, {"CUDA_VISIBLE_DEVICES": f"{UUID}1".lower()}, ALL, id="not a UUID"),
        pytest.param(GPUS, {"CUDA_VISIBLE_DEVICES": f"MIG-{UUID}1/12/0"}, {1}, id="old MIG"),
        pytest.param(
            GPUS, {"CUDA_VISIBLE_DEVICES": "GPU-00000000"}, ALL, id="short for more than one"
        ),
        pytest.param(GPUS, {"CUDA_VISIBLE_DEVICES": f"{UUID}9"}, ALL, id="a UUID of no GPU"),
        pytest.param(GPUS, {"SLURM_JOB_GPUS": "0,8"}, ALL, id="a number of no GPU"),
        pytest.param(COUNTED_OTHERWISE, {"SLURM_JOB_GPUS": "2"}, {0}, id="minor, not index"),
        pytest.param(COUNTED_OTHERWISE, {"SLURM_JOB_GPUS": "0,1"}, {2, 3}, id="minors"),
        pytest.param(COUNTED_OTHERWISE, {"SLURM_JOB_GPUS": f"{UUID}2"}, {2}, id="UUID it is"),
        pytest.param(
            ONE_LOST, {"SLURM_JOB_GPUS": "1"}, {1}, id="index where no minor is known"
        ),
        pytest.param(ONE_LOST, {"SLURM_JOB_GPUS": "0"}, {0}, id="beside a lost one"),
        pytest.param(CUT_UP, {"CUDA_VISIBLE_DEVICES": f"{MIG}1"}, {1}, id="MIG"),
        pytest.param(CUT_UP, {"CUDA_VISIBLE_DEVICES": f"{MIG}0,{MIG}2"}, {1, 2}, id="two MIG"),
        pytest.param(CUT_UP, {"CUDA_VISIBLE_DEVICES": f"{MIG}0::2"}, {1}, id="replica of MIG"),
        pytest.param(
            CUT_UP,
            {"SLURM_JOB_GPUS": "0", "CUDA_VISIBLE_DEVICES": f"{MIG}2"},
            {2},
            id="a number of a MIG device, with its name",
        ),
        pytest.param(CUT_UP, {"SLURM_JOB_GPUS": "1"}, ALL, id="a number of a MIG device alone"),
        pytest.param(CUT_UP, {"CUDA_VISIBLE_DEVICES": f"{MIG}9"}, ALL, id="MIG of no GPU"),
        pytest.param(GPUS, {"CUDA_VISIBLE_DEVICES": ""}, set(), id="empty"),
        pytest.param(
            GPUS, {"SLURM_JOB_GPUS": "", "CUDA_VISIBLE_DEVICES": "NoDevFiles"}, set(), id="none"
        ),
        pytest.param(GPUS, {}, set(), id="absent"),
        *(
            pytest.param(GPUS, {"SLURM_JOB_GPUS": text}, ALL, id=f"malformed {text}")
            for text in (
                "one",
                "-1",
                "0,x",
                "0-999999999",
                "1-",
                "5-2",
                "²",
                "all",
                "0 1",
                "GPU-",
            )
        ),
    ],
)
def test_the_jobs_gpus_are_found(
    gpus: tuple[GpuFacts, ...], environment: dict[str, str], held: set[int] | None
) -> None:
    """By device file, by UUID, by the parent of a MIG device; no name, no GPU; else every one."""
    scope = scope_of(environment)

    indices, is_certain = scope.among(gpus)

    assert indices == ({gpu.index for gpu in gpus} if held is None else held)
    assert is_certain == (held is not None)
    assert bool(scope) == (held != set())


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_environment_stops_a_hook(slurms: str, cudas: str) -> None:
    """Whatever stands there, some set of this node's GPUs is meant."""
    scope = scope_of({"SLURM_JOB_GPUS": slurms, "CUDA_VISIBLE_DEVICES": cudas})

    indices, is_certain = scope.among(GPUS)

    assert indices <= {gpu.index for gpu in GPUS}
    assert indices or not scope
    assert is_certain or len(indices) == len(GPUS)


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
