"""What ranks find in their environment."""

from pathlib import Path

import msgspec
import pytest

from slurm_resilience.watch.assignment import Assignment, to_environment
from slurm_resilience.watch.environment import Surroundings, for_ranks, is_tracked_by_parents

ASSIGNMENT = Assignment(
    job="7",
    attempt=1,
    nodes=2,
    token="secret",
    supervisor_port=1,
    meeting_port=2,
    attempt_directory="/runs/7/attempt-1",
    job_variables={"SLURM_CPUS_PER_TASK": "8", "SLURM_NTASKS": "16"},
)


def ranks_find(environ: dict[str, str], **more: object) -> dict[str, str]:
    here: dict[str, object] = {
        "heartbeats": Path("/dev/shm/x"),
        "ranks_here": 4,
        "interface": "eth0",
        "shield": False,
        "torch": (2, 13),
        **more,
    }
    return for_ranks(environ, ASSIGNMENT, Surroundings(**here))  # type: ignore[arg-type]


def test_what_the_user_set_stays() -> None:
    """Our choices are defaults only."""
    own = {"OMP_NUM_THREADS": "3", "GLOO_SOCKET_IFNAME": "ib0", "TORCH_FR_BUFFER_SIZE": "9"}

    found = ranks_find(own)

    assert {name: found[name] for name in own} == own


def test_ranks_know_what_was_saved_before() -> None:
    """A step that an earlier attempt saved is named, unless the user says otherwise, even nothing."""
    later = msgspec.structs.replace(ASSIGNMENT, saved_step=40)

    def told(assignment: Assignment, environ: dict[str, str]) -> str | None:
        here = Surroundings(Path("/dev/shm/x"), 4, None, shield=False, torch=None)
        return for_ranks(environ, assignment, here).get("SLURM_RESILIENCE_SAVED_STEP")

    assert told(ASSIGNMENT, {}) is None
    assert told(later, {}) == "40"
    assert told(later, {"SLURM_RESILIENCE_SAVED_STEP": ""}) == ""


def test_ranks_know_when_the_time_is_up() -> None:
    """Where Slurm, before 23.02, does not tell them; what it tells counts more."""
    limited = msgspec.structs.replace(ASSIGNMENT, ends_at=1827626513.0)

    def told(assignment: Assignment, environ: dict[str, str]) -> str | None:
        here = Surroundings(Path("/dev/shm/x"), 4, None, shield=False, torch=None)
        return for_ranks(environ, assignment, here).get("SLURM_JOB_END_TIME")

    assert told(ASSIGNMENT, {}) is None
    assert told(limited, {}) == "1827626513"
    assert told(limited, {"SLURM_JOB_END_TIME": "1827626000"}) == "1827626000"


def test_ranks_know_where_the_records_of_this_attempt_lie() -> None:
    """Of this job, also where it was submitted from within another."""
    found = ranks_find({"SLURM_RESILIENCE_ATTEMPT": "/runs/6/attempt-0"})

    assert found["SLURM_RESILIENCE_ATTEMPT"] == "/runs/7/attempt-1"


def test_the_token_does_not_reach_the_ranks() -> None:
    """It is the agent's alone."""
    found = ranks_find(to_environment(ASSIGNMENT))

    assert "secret" not in str(found)


def test_ranks_get_back_what_was_kept_from_srun() -> None:
    """A script that reads SLURM_CPUS_PER_TASK finds it; what the step itself says counts more."""
    found = ranks_find({"SLURM_NTASKS": "2", "SLURM_CPUS_ON_NODE": "32"})

    assert found["SLURM_CPUS_PER_TASK"] == "8"
    assert found["SLURM_NTASKS"] == "2"
    assert found["OMP_NUM_THREADS"] == "8"


def test_the_flight_recorder_goes_by_the_name_that_this_torch_knows() -> None:
    """A new torch warns of the old name, an old one does not know the new."""
    new, old = ranks_find({}), ranks_find({}, torch=(2, 4))

    assert new["TORCH_FR_DUMP_TEMP_FILE"] == "/runs/7/attempt-1/nccl/rank-"
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE" not in new
    assert old["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "2000"


@pytest.mark.parametrize(
    ("cgroups", "tracked_by_parents"),
    [
        ("5:freezer:/slurm_n1/uid_1000/job_3/step_0\n0::/init.scope\n", False),
        ("0::/system.slice/slurmstepd.scope/job_3/step_0/user/task_0\n", False),
        ("5:freezer:/\n4:memory:/slurm/uid_1000/job_3/step_0\n0::/\n", True),
        ("0::/system.slice/slurmd.service\n", True),
        ("", True),
    ],
)
def test_how_slurm_tracks_a_step(cgroups: str, *, tracked_by_parents: bool) -> None:
    """Only a cgroup that Slurm freezes and kills by keeps a step's signals from the ranks."""
    assert is_tracked_by_parents(cgroups) is tracked_by_parents
