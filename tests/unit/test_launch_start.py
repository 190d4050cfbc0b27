"""What `run` makes of its environment before anything is started."""

import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from slurm_resilience.errors import LaunchError
from slurm_resilience.launch import job, place, rendezvous
from slurm_resilience.launch.step import kept_from_srun, srun_command, step_environment
from slurm_resilience.slurm.values import Job
from slurm_resilience.watch.assignment import VARIABLE, Assignment

BATCH = {
    "SLURM_JOB_ID": "12",
    "SLURMD_NODENAME": "n1",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_SUBMIT_DIR": "/home/me",
}
THIS = job.read(BATCH)


def test_a_job_is_read_from_its_batch_script() -> None:
    """An array task goes by the name that requeues it alone; the attempt is the restart count."""
    array = job.read(
        BATCH
        | {
            "SLURM_ARRAY_JOB_ID": "10",
            "SLURM_ARRAY_TASK_ID": "3",
            "SLURM_RESTART_COUNT": "2",
        }
    )

    assert (THIS.id, THIS.attempt, THIS.nodes, THIS.node) == ("12", 0, 2, "n1")
    assert (array.id, array.attempt) == ("10_3", 2)


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, "SLURM_JOB_ID is not set.*sbatch"),
        (BATCH | {"SLURM_STEP_ID": "0"}, "not through srun"),
        ({"SLURM_JOB_ID": "12"}, "not from salloc"),
        (BATCH | {"SLURM_RESTART_COUNT": "x"}, "not whole"),
    ],
    ids=["no job", "in a step", "on a login node", "damaged"],
)
def test_elsewhere_it_says_what_to_do(environ: dict[str, str], says: str) -> None:
    """One line that names what is missing."""
    with pytest.raises(LaunchError, match=says):
        job.read(environ)


@pytest.mark.parametrize(
    ("words", "environ", "says"),
    [
        (["run", "--", "true"], {}, "SLURM_JOB_ID is not set"),
        (["run"], BATCH, "no command"),
        (["run", "--", "no-such-program"], BATCH, "no-such-program: not found"),
        (["run", "--", "/etc/passwd"], BATCH, "/etc/passwd: is no program (not executable)"),
        (["agent", "--", "true"], BATCH, "starts the agents"),
    ],
    ids=["outside a job", "no command", "no such command", "no program", "an agent by hand"],
)
def test_what_cannot_be_run_is_refused_in_one_line(
    words: list[str], environ: dict[str, str], says: str
) -> None:
    """Exit status 2, and nothing was started."""
    done = subprocess.run(
        [sys.executable, "-m", "slurm_resilience", *words],
        env={"PATH": "/usr/bin:/bin", **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--run-dir", ""], "--run-dir: is empty"),
        (["--nproc-per-node", "100000"], "--nproc-per-node: 100000: at least 1, at most 1024"),
        (["--nproc-per-node", "0"], "at least 1"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(words: list[str], says: str) -> None:
    """Exit status 2, before anything is made or started."""
    done = subprocess.run(
        [sys.executable, "-m", "slurm_resilience", "run", *words, "--", "true"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize(
    ("directory", "nodes", "is_said"),
    [
        ("/home/me/runs", 2, False),
        ("/scratch/runs", 2, True),
        ("/scratch/runs", 1, False),
        ("/dev/shm/runs", 2, True),
        ("/tmp/runs", 2, True),
    ],
)
def test_records_that_other_nodes_cannot_see_are_warned_of(
    directory: str,
    nodes: int,
    *,
    is_said: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line, where a job of several nodes keeps them in one node's memory."""
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "none / ext4 rw 0 0\nnone /scratch tmpfs rw 0 0\nnas:/h /home nfs rw 0 0\n"
    )

    place.warn_where_local(Path(directory), replace(THIS, nodes=nodes), mounts)

    assert [directory in record.message for record in caplog.records] == [True] * is_said


@pytest.mark.parametrize(
    ("asked", "comment", "chosen"),
    [
        (None, "", "/home/me/slurm-resilience/12"),
        (None, "mine slurm-resilience", "/work/slurm-resilience/12"),
        (None, "slurm-resilience=/fast/runs/%j mine", "/fast/runs/12"),
        (Path("here"), "slurm-resilience=/fast", "/home/me/here"),
        (Path("/there"), "", "/there"),
    ],
)
def test_the_run_directory_is_the_one_that_was_named(
    asked: Path | None, comment: str, chosen: str
) -> None:
    """--run-dir, else the Comment, else slurm-resilience/<job id> where it was submitted."""
    known = Job("12", "RUNNING", comment=comment, work_dir="/work")

    assert place.choose(asked, known, THIS) == Path(chosen)


def test_without_an_answer_from_slurm_the_default_is_taken() -> None:
    """A silent controller does not keep a job from running."""
    assert place.choose(None, None, THIS) == Path("/home/me/slurm-resilience/12")


def test_a_run_directory_that_cannot_be_made_is_said_at_once(tmp_path: Path) -> None:
    """Not after the first hour."""
    (tmp_path / "file").touch()

    with pytest.raises(LaunchError, match=re.escape(f"{tmp_path}/file")):
        place.make(tmp_path / "file" / "runs", 0)


@given(
    number=st.integers(1, 10**7).map(str),
    attempt=st.integers(0, 50),
    low=st.integers(1024, 60000),
    width=st.integers(100, 30000),
)
def test_ports_lie_outside_the_kernels_own_range(
    number: str, attempt: int, low: int, width: int
) -> None:
    """A connection of somebody else's cannot take the port between two attempts."""
    high = min(low + width, 65535)

    ports = list(rendezvous.candidates(number, attempt, (low, high)))

    assert ports == list(rendezvous.candidates(number, attempt, (low, high)))
    assert len(set(ports)) > 1
    assert all(10000 <= port <= 65000 for port in ports)
    if low >= 12001 or high <= 62999:
        assert not any(low <= port <= high for port in ports)


def test_another_attempt_meets_elsewhere() -> None:
    """What is left of an attempt never meets the next one, nor jobs 10,000 apart each other."""
    firsts = {
        next(rendezvous.candidates(number, attempt, (32768, 60999)))
        for number in ("5", "10005", "20005")
        for attempt in range(3)
    }

    assert len(firsts) == 9


def test_a_port_in_use_is_passed_over() -> None:
    """The next candidate is taken."""
    with socket.create_server(("", 0)) as taken:
        busy = taken.getsockname()[1]

        assert rendezvous.free_port(iter([busy, 0])) == 0
        with pytest.raises(LaunchError, match="none of"):
            rendezvous.free_port(iter([busy]))


def test_the_step_gets_all_that_the_job_has_on_each_node() -> None:
    """What #SBATCH lines say of tasks is kept from srun, and given back to the ranks."""
    environ = {
        "PATH": "/usr/bin",
        "SLURM_NTASKS_PER_NODE": "8",
        "SLURM_GPUS_PER_TASK": "1",
        "SLURM_GPUS_ON_NODE": "8",
        "SLURM_EXPORT_ENV": "NONE",
    }

    words = srun_command(2, ["agent"], environ)
    given_to_srun = step_environment(environ, {"MORE": "1"})

    assert {"--nodes=2", "--ntasks=2", "--gpus-per-node=8", "--export=ALL"} <= set(words)
    assert given_to_srun == {"PATH": "/usr/bin", "SLURM_GPUS_ON_NODE": "8", "MORE": "1"}
    assert kept_from_srun(environ)["SLURM_NTASKS_PER_NODE"] == "8"


def test_gpus_that_were_asked_for_by_node_are_not_asked_for_again() -> None:
    """srun gives a step the job's GPUs by itself then, of whatever type."""
    words = srun_command(2, ["agent"], {"SLURM_GPUS_ON_NODE": "8"}, bin_dir="/opt/slurm/bin")

    assert not [word for word in words if word.startswith("--gpus")]
    assert words[0] == "/opt/slurm/bin/srun"


def test_the_agents_are_told_what_slurm_knows_of_the_job(tmp_path: Path) -> None:
    """By the answer of a real Slurm 22.05: when its time is up."""
    folder, told = tmp_path / "bin", tmp_path / "told"
    folder.mkdir()
    answers = Path(__file__).parents[1] / "slurm_json" / "squeue_22.05.8.json"
    srun = f"printenv {VARIABLE} > {told}.new && mv {told}.new {told}"
    for name, script in {"squeue": f"cat {answers}", "srun": srun}.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    batch = BATCH | {"SLURM_JOB_ID": "1", "PATH": f"{folder}:/usr/bin:/bin"}
    words = ["run", "--run-dir", str(tmp_path), "--", "true"]
    process = subprocess.Popen(
        [sys.executable, "-m", "slurm_resilience", *words], env=batch, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    try:
        while not told.exists():
            assert time.monotonic() < deadline, "srun is not called"
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()

    assignment = msgspec.json.decode(told.read_bytes(), type=Assignment)

    assert (assignment.job, assignment.ends_at) == ("1", 1827626513)
