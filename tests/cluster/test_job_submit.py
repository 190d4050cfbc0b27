"""The scripts for slurmctld and sbatch on a real Slurm: what a job that takes part is given."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import Cluster
from testbed.layout import CHECKOUT
from tests.cluster.waiting import next_second
from tests.missing import missing

pytestmark = pytest.mark.cluster

INSTALLED = "/opt/slurm-resilience/share/slurm-resilience/job_submit"
PART = "--comment=slurm-resilience"
ALIKE = "-- resilience.ALIKE = { gpu = true }"
SCRIPT = """#!/bin/bash
trap 'echo noticed' USR2
echo "attempt ${SLURM_RESTART_COUNT:-0}"
for i in {1..600}; do sleep 1; done
"""


@pytest.fixture(scope="module")
def site(machine: int) -> Iterator[Cluster]:
    """
    Three nodes, with the scripts installed as an administrator would, who calls the nodes of two
    partitions alike and not those of a third.
    """
    plugins = list(Path("/usr/lib").glob("*/slurm*/job_submit_lua.so"))
    if not plugins:
        missing("Slurm's job_submit/lua is not installed")
    with Cluster.up(nodes=3, gpus=0, instance=machine + 300, hooks=False) as cluster:
        for name in ("job_submit.lua", "cli_filter.lua"):
            text = (CHECKOUT / "job_submit" / name).read_text()
            assert INSTALLED in text
            there = etc(cluster) / name
            text = text.replace(ALIKE, "resilience.ALIKE = { all = true, urgent = true }")
            there.write_text(text.replace(INSTALLED, "/etc/slurm"))
        assert ALIKE in (CHECKOUT / "job_submit" / "job_submit.lua").read_text()
        with (etc(cluster) / "slurm.conf").open("a") as file:
            file.write("JobSubmitPlugins=lua\nCliFilterPlugins=lua\n")
            file.write("PartitionName=mixed Nodes=n[1-3]\n")
        install_library(cluster)
        yield cluster


@pytest.fixture(autouse=True)
def _clean(site: Cluster) -> Iterator[None]:
    yield
    site.run(["scancel", "--user=alice", "--full", "--signal=KILL"], check=False)
    site.run(["scancel", "--user=alice"], check=False)
    avoid(site).unlink(missing_ok=True)


def etc(cluster: Cluster) -> Path:
    return cluster.layout.etc / "slurm"


def avoid(cluster: Cluster) -> Path:
    return cluster.layout.etc / "slurm-resilience" / "avoid-nodes"


def install_library(cluster: Cluster, text: str | None = None) -> None:
    library = etc(cluster) / "slurm_resilience.lua"
    ours = (CHECKOUT / "job_submit" / library.name).read_text()
    library.write_text(ours if text is None else text)
    reload(cluster)


def reload(cluster: Cluster) -> None:
    """slurmctld reads its script again at a submission when that is younger than the last reading."""
    later = time.time() + 3600
    os.utime(etc(cluster) / "job_submit.lua", (later, later))
    cluster.run(["scontrol", "reconfigure"], user="root")


def submitted(cluster: Cluster, *options: str, user: str = "alice") -> dict[str, str]:
    """The job as Slurm has it, held so that it stays as it was submitted."""
    return cluster.job(cluster.sbatch(["--hold", *options], user=user, stdin=SCRIPT))


def told(cluster: Cluster) -> str:
    return (cluster.logs / "slurmctld.log").read_text()


def output(cluster: Cluster, name: str) -> str:
    path = cluster.home("alice") / f"{name}.out"
    return path.read_text() if path.exists() else ""


def await_words(cluster: Cluster, name: str, words: str, timeout_s: float = 30) -> None:
    cluster.wait_for(lambda: words in output(cluster, name), timeout_s, f"{words!r} in {name}")


@pytest.mark.parametrize("word", ["slurm-resilience", "x slurm-resilience=/shared/r y"])
def test_a_job_that_takes_part_comes_back_and_avoids_nodes(site: Cluster, word: str) -> None:
    """Whatever JobRequeue says; its Comment stays as it was."""
    avoid(site).write_text("# seen by the night shift\nn2\n\nn1 until=1000000000\n")

    job = submitted(site, f"--comment={word}")

    assert (job["Requeue"], job["ExcNodeList"], job["Comment"]) == ("1", "n2", word)


def test_a_job_that_takes_no_part_is_left_alone(site: Cluster) -> None:
    """Not even one whose Comment speaks of us, or carries the controller's mark alone."""
    avoid(site).write_text("n2\n")

    for options in (
        (),
        ("--comment=slurm-resilience-requeue=0",),
        ("--comment=no-slurm-resilience",),
    ):
        assert submitted(site, *options)["ExcNodeList"] == "(null)"


def test_what_the_user_says_stands(site: Cluster) -> None:
    """Excluded nodes are joined, nodes asked for by name are not excluded, and a no is a no."""
    avoid(site).write_text("n2\nn3\n")

    joined = submitted(site, PART, "--exclude=n1")
    named = submitted(site, PART, "--nodelist=n3")
    done = site.run(["sbatch", "--hold", PART, "--no-requeue"], stdin=SCRIPT)

    assert joined["ExcNodeList"] == "n[1-2]"
    assert named["ExcNodeList"] == "n2"
    assert "--no-requeue stands: this job will not be brought back" in done.stderr
    assert site.job(done.stdout.split()[-1])["Requeue"] == "0"


def test_a_job_can_always_be_placed(site: Cluster) -> None:
    """Of three nodes to avoid, as many as the job can do without."""
    avoid(site).write_text("n1\nn2\nn3\n")

    assert submitted(site, PART, "--nodes=1")["ExcNodeList"] == "n[1-2]"
    assert submitted(site, PART, "--nodes=2")["ExcNodeList"] == "n1"
    assert submitted(site, PART, "--nodes=3")["ExcNodeList"] == "(null)"
    assert submitted(site, PART, "--partition=urgent,all")["ExcNodeList"] == "n[1-2]"


@pytest.mark.parametrize(
    "options",
    [
        ("--partition=mixed",),
        ("--partition=all,mixed",),
        ("--constraint=big",),
        ("--constraint=big", "--partition=mixed"),
        ("--reservation=only-n1",),
        ("--nodes=2", "--contiguous", "--exclude=n3"),
        ("--ntasks=12",),
        ("--nodes=1-3", "--ntasks=12"),
        ("--nodes=2", "--ntasks=8", "--exclude=n3"),
    ],
    ids=" ".join,
)
def test_a_job_that_only_a_node_to_avoid_can_run_is_taken(
    site: Cluster, options: tuple[str, ...]
) -> None:
    """Slurm would refuse it, were that node excluded."""
    features = ["scontrol", "update", "NodeName=n1"]
    site.run([*features, "AvailableFeatures=big", "ActiveFeatures=big"], user="root")
    reserved = ["ReservationName=only-n1", "Users=alice", "Nodes=n1"]
    when = ["StartTime=now+1hour", "Duration=60"]
    site.run(["scontrol", "create", *reserved, *when], user="root")
    avoid(site).write_text("n1\n")
    try:
        job = submitted(site, PART, *options)
        site.run(["scancel", job["JobId"]])
    finally:
        site.run(["scontrol", "delete", "ReservationName=only-n1"], user="root")
        site.run([*features, "AvailableFeatures=", "ActiveFeatures="], user="root")

    assert "n1" not in job["ExcNodeList"]


def test_a_partition_that_is_not_known_to_be_alike_is_told(site: Cluster) -> None:
    """An administrator who wonders finds the name in slurmctld's log."""
    avoid(site).write_text("n1\n")

    submitted(site, PART, "--partition=mixed")

    assert "no node is avoided for a job: partition mixed is not in ALIKE" in told(site)


def test_a_file_that_slurmctld_may_not_read_is_told(site: Cluster) -> None:
    """It is Slurm's own user that reads it."""
    avoid(site).write_text("n1\n")
    avoid(site).chmod(0)

    job = submitted(site, PART)

    assert (job["ExcNodeList"], job["Requeue"]) == ("(null)", "1")
    assert "avoid-nodes: Permission denied; not used" in told(site)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("n1\nn2 n3\n", "line 2 is not"),
        ("n1; os.execute('x')\n", "line 1 is not"),
        ("n1 until=soon\n", "line 1 is not"),
        ("n1 until=99999999999999\n", "line 1 is not"),
        ("n[1-2]\n", "line 1 is not"),
        ("n1\n" + "#" * 70_000, "larger than 65536 bytes"),
        ("n1\n" * 300, "more than 256 nodes"),
    ],
    ids=["two names", "code", "no time", "no such time", "a list", "huge", "long"],
)
def test_a_file_that_is_not_as_it_should_be_is_not_used(
    site: Cluster, text: str, says: str
) -> None:
    """None of it, and slurmctld's log says why; the job is submitted."""
    avoid(site).write_text(text)
    before = len(told(site))

    job = submitted(site, PART)

    assert (job["ExcNodeList"], job["Requeue"]) == ("(null)", "1")
    assert says in told(site)[before:]


@pytest.mark.parametrize("text", ["ghost\n", ""], ids=["a node that is gone", "empty"])
def test_a_node_that_is_no_more_does_not_hinder(site: Cluster, text: str) -> None:
    """Slurm itself would refuse a job that excludes what it does not know."""
    avoid(site).write_text(text)

    assert submitted(site, PART)["ExcNodeList"] == "(null)"


@pytest.mark.parametrize(
    "library",
    [
        "",
        "this is no Lua",
        "error('on load')",
        "return {submit = 5}",
        "return {submit = error}",
    ],
)
def test_nothing_of_ours_that_is_broken_breaks_submission(site: Cluster, library: str) -> None:
    """A job comes through as it came, and slurmctld's log says so."""
    install_library(site, library)
    try:
        job = submitted(site, PART, "--no-requeue")
    finally:
        install_library(site)

    assert (job["ExcNodeList"], job["Requeue"]) == ("(null)", "0")
    assert "slurm-resilience: the job goes on without what is missing" in told(site)


def test_a_library_that_is_missing_breaks_nothing(site: Cluster) -> None:
    """As while an upgrade replaces it."""
    (etc(site) / "slurm_resilience.lua").unlink()
    reload(site)
    try:
        job = submitted(site, PART)
    finally:
        install_library(site)

    assert job["JobState"] == "PENDING"


def test_output_is_appended_to_over_a_requeue(site: Cluster) -> None:
    """Both attempts stand in the file; a user who says truncate has it truncated."""
    ours, theirs = (
        site.sbatch([PART, "--nodes=1", f"--output={name}.out", *more], stdin=SCRIPT)
        for name, more in (("ours", ()), ("theirs", ("--open-mode=truncate",)))
    )

    for job, name in ((ours, "ours"), (theirs, "theirs")):
        await_words(site, name, "attempt 0")
        site.run(["scontrol", "requeue", job])
        site.wait_for_job(job, "PENDING")
        next_second(site)
        site.run(["scontrol", "update", f"JobId={job}", "StartTime=now"])
        await_words(site, name, "attempt 1")

    assert "attempt 0" in output(site, "ours")
    assert "attempt 0" not in output(site, "theirs")


def test_a_notice_comes_before_the_time_limit(site: Cluster) -> None:
    """To the batch shell, two minutes before; a limit of one minute makes that at once."""
    given, own = (
        site.sbatch([PART, "--time=1", f"--output={name}.out", *more], stdin=SCRIPT)
        for name, more in (("given", ()), ("own", ("--signal=B:USR1@1",)))
    )

    await_words(site, "given", "noticed", timeout_s=55)

    assert "noticed" not in output(site, "own"), (given, own)


def test_submission_is_not_held_up(site: Cluster) -> None:
    """slurmctld waits for the script: even a file of the largest size costs next to nothing."""
    avoid(site).write_text("".join(f"gone{number}\n" for number in range(256)) + "#" * 60_000)
    started = time.monotonic()

    for _ in range(5):
        submitted(site, PART)

    assert time.monotonic() - started < 20
