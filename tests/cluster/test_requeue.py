"""The controller on a real cluster: the job comes back without the suspect, whatever gets in between."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from slurm_resilience.bounded import ask
from slurm_resilience.incident import Incident, Suspect
from slurm_resilience.run_directory import attempt_directory, write_incident
from testbed import Cluster
from testbed.processes import Command

pytestmark = pytest.mark.cluster

ALICE = 61001
SCRIPT = """#!/bin/bash
#SBATCH --comment=slurm-resilience --open-mode=append --output=%x.out
echo "attempt ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
sleep 600
"""


INSIDE = """
import os, signal
from slurm_resilience.requeue.inside import requeue_own_job
from slurm_resilience.settings import SlurmSettings
from slurm_resilience.slurm.connect import connect

signal.signal(signal.SIGTERM, lambda *_: None)
done = requeue_own_job(connect(SlurmSettings()), os.environ["SLURM_JOB_ID"], exclude=["n1", "n9"])
print("excluded", *done.nodes, *done.left_out, sep="; ")
"""


class Sleeper:
    """A job of alice's that takes part and does nothing; the test tells its incidents."""

    def __init__(self, cluster: Cluster, name: str, *options: str, id_: str = "") -> None:
        self.cluster = cluster
        self.home = cluster.home("alice")
        self.output = self.home / f"{name}.out"
        self.id = id_ or cluster.sbatch([f"--job-name={name}", *options], stdin=SCRIPT)

    @property
    def shown(self) -> dict[str, str]:
        return self.cluster.job(self.id)

    @property
    def run_directory(self) -> Path:
        return self.home / "slurm-resilience" / self.id

    def wait_for_attempt(self, attempt: int, timeout_s: float = 30) -> None:
        self.cluster.wait_for(
            lambda: (
                self.shown.get("JobState") == "RUNNING"
                and self.shown["Restarts"] == str(attempt)
                and self.output.exists()
                and f"attempt {attempt} on" in self.output.read_text()
            ),
            timeout_s,
            f"attempt {attempt} of job {self.id}",
        )

    def tell(self, node: str, attempt: int = 0, **otherwise: object) -> None:
        """Leave an incident as the supervisor would, as the job's owner."""
        incident = Incident(
            job=self.id, attempt=attempt, kind="stall", class_="hardware", cause="rank-stopped",
            reason=f"a rank on {node} stopped", retry="exclude-node", detected_at=time.time(),
            suspects=(Suspect(node, "its rank stopped"),), last_step=5, saved_step=5,
        )  # fmt: skip
        incident = msgspec.structs.replace(incident, **otherwise)
        as_alice(lambda: write_incident(self.run_directory, incident))


def as_alice(work: object) -> None:
    assert callable(work)
    answer = ask(lambda: [str(work()).encode()], deadline_s=10, as_user=ALICE)
    assert not answer.trouble, answer.trouble


def start(cluster: Cluster, *options: str, user: str = "root") -> Command:
    return cluster.popen(["slurm-resilience", "controller", *options], user=user)


def stop(controller: Command) -> str:
    """End a controller; what it said."""
    controller.send_signal(signal.SIGTERM)
    return controller.communicate(timeout=20)[1]


def once(cluster: Cluster, *options: str) -> str:
    """One look of the controller; what it said."""
    return cluster.run(
        ["slurm-resilience", "controller", "--once", *options], user="root"
    ).stderr


@pytest.fixture
def controller(cluster: Cluster) -> Iterator[Command]:
    """One that runs all the while."""
    process = start(cluster)
    yield process
    if process.poll() is None:
        stop(process)


@pytest.mark.parametrize("whose", [("root",), ("alice", "--user")], ids=["site", "own"])
def test_the_job_comes_back_without_the_suspect(
    cluster: Cluster, whose: tuple[str, ...]
) -> None:
    """Within seconds, under the same id, with nothing of ours left in its Comment."""
    user, *options = whose
    controller = start(cluster, *options, user=user)
    job = Sleeper(cluster, "train", "--nodes=2", "--exclude=n4")
    job.wait_for_attempt(0)

    job.tell("n2")
    job.wait_for_attempt(1, timeout_s=20)
    cluster.wait_for(lambda: job.shown["Comment"] == "slurm-resilience", describe="no mark")

    assert "attempt 1 on n[1,3]" in job.output.read_text()
    assert job.shown["Restarts"] == "1"
    told = cluster.run(["slurm-resilience", "status", job.id], user=user).stdout
    assert f"job {job.id} RUNNING attempt 1 on n1,n3 without n4,n2\n" in told
    assert (
        "attempt 0: stall (hardware): a rank on n2 stopped -> exclude-node, suspects n2" in told
    )
    said = stop(controller)
    assert f"job {job.id}: attempt 0: requeues it: a rank on n2 stopped" in said
    assert f"job {job.id}: attempt 1: excludes n4,n2" in said


def test_a_dry_run_says_and_changes_nothing(cluster: Cluster) -> None:
    """The first step, and why, and no lock or ledger."""
    job = Sleeper(cluster, "train", "--nodes=1")
    job.wait_for_attempt(0)
    job.tell("n1")
    before = job.shown

    said = once(cluster, "--dry-run")

    assert f"job {job.id}: attempt 0: would: marks it" in said
    assert {**job.shown, "RunTime": ""} == {**before, "RunTime": ""}
    assert not list(cluster.controller.kept.iterdir())


def test_killed_after_any_step_the_next_one_finishes(cluster: Cluster) -> None:
    """SIGKILL after each of its changes in turn; every job comes back once, on other nodes."""
    changes = {
        "mark": "update jobid={} comment=slurm-resilience slurm-resilience-requeue=0",
        "requeue": "requeuehold {}",
        "exclude": "update jobid={} excnodelist=",
        "release": "release {}",
        "start": "update jobid={} starttime=now",
    }
    programs = killing_programs(cluster.shared / "killing")
    cluster.configure(f"slurm: {{bin_dir: {programs}}}\n")
    jobs = {step: Sleeper(cluster, step, "--nodes=1") for step in changes}
    for job in jobs.values():
        job.wait_for_attempt(0)

    victims = {step: job.shown["NodeList"] for step, job in jobs.items()}
    for step, job in jobs.items():
        (programs / "fatal").write_text(changes[step].format(job.id))
        job.tell(victims[step])
        with start(cluster) as controller:
            controller.communicate(timeout=20)
        assert controller.returncode in {-signal.SIGKILL, 128 + signal.SIGKILL}
    (programs / "fatal").write_text("nothing")
    controller = start(cluster)
    for job in jobs.values():
        job.wait_for_attempt(1, timeout_s=20)
    cluster.wait_for(
        lambda: all(job.shown["Comment"] == "slurm-resilience" for job in jobs.values()),
        describe="no marks",
    )
    stop(controller)

    for step, job in jobs.items():
        assert job.shown["Restarts"] == "1", step
        assert job.shown["ExcNodeList"] == victims[step], step
        assert job.shown["NodeList"] != victims[step], step


def killing_programs(folder: Path) -> Path:
    """Slurm's commands, of which scontrol kills who called it once it has done what `fatal` names."""
    folder.mkdir()
    for name in ("squeue", "sinfo"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    scontrol = folder / "scontrol"
    scontrol.write_text(
        "#!/bin/sh\n"
        '/usr/bin/scontrol "$@" || exit\n'
        f'case "$*" in "$(cat {folder}/fatal)"*) kill -9 $PPID;; esac\n'
    )
    scontrol.chmod(0o755)
    return folder


def test_a_persons_hold_stays(cluster: Cluster) -> None:
    """Requeued and held by its owner, or held by root after our mark: neither is released."""
    own, admins = (Sleeper(cluster, name, "--nodes=1") for name in ("own", "admins"))
    for job in (own, admins):
        job.wait_for_attempt(0)
        job.tell("n1")
    cluster.run(["scontrol", "requeuehold", own.id], user="alice")
    cluster.run(["scontrol", "requeue", admins.id], user="alice")
    mark = "comment=slurm-resilience slurm-resilience-requeue=0"
    cluster.run(["scontrol", "update", f"jobid={admins.id}", mark], user="alice")
    for job in (own, admins):
        cluster.wait_for_job(job.id, "PENDING")
    cluster.run(["scontrol", "hold", admins.id], user="root")

    said = "".join(once(cluster) for _ in range(3))

    assert f"job {own.id}: attempt 1: leaves it: held by its owner or an administrator" in said
    assert f"job {admins.id}: attempt 1: takes the mark off: an administrator holds it" in said
    for job in (own, admins):
        assert (job.shown["JobState"], job.shown["Priority"]) == ("PENDING", "0")


def test_a_job_whose_supervisor_was_killed_comes_back(
    cluster: Cluster, controller: Command
) -> None:
    """It could not say a word itself, as after an out-of-memory kill; what was cancelled stays so."""
    killed, cancelled = (
        Sleeper(cluster, name, "--nodes=1") for name in ("killed", "cancelled")
    )
    for job in (killed, cancelled):
        job.wait_for_attempt(0)

    cluster.run(["scancel", "--signal=KILL", "--batch", killed.id], user="alice")
    cluster.run(["scancel", cancelled.id], user="alice")
    killed.wait_for_attempt(1, timeout_s=20)
    said = stop(controller)

    back = "attempt 0: puts it back into the queue: its supervisor was killed (signal 9)"
    assert f"job {killed.id}: {back}" in said
    assert killed.shown["Comment"] == "slurm-resilience"
    assert (cancelled.shown["JobState"], cancelled.shown["Restarts"]) == ("CANCELLED", "0")


@pytest.mark.usefixtures("controller")
def test_only_the_array_task_that_stalled_is_requeued(cluster: Cluster) -> None:
    """The last task's raw id is the array's; by that all would go back."""
    array = Sleeper(cluster, "array", "--nodes=1", "--array=0-1", "--output=array-%a.out").id
    first, last = (Sleeper(cluster, f"array-{n}", id_=f"{array}_{n}") for n in (0, 1))
    for task in (first, last):
        task.wait_for_attempt(0)

    last.tell("n1")
    last.wait_for_attempt(1)

    assert (last.shown["ExcNodeList"], last.shown["Restarts"]) == ("n1", "1")
    assert first.shown["Restarts"] == "0"


def test_a_hostile_run_directory_costs_only_its_owner(
    cluster: Cluster, controller: Command
) -> None:
    """
    Links, pipes, giants, foreign files, a file system that hangs, no path, no possible date, words
    that forge: nothing is done, others go on, and the log keeps its lines.
    """
    cluster.controller.hung_disk("/mnt/hung")
    names = ("link", "pipe", "giant", "foreign", "nonsense", "hung", "nul", "dated", "forged")
    options = {
        "hung": ["--comment=slurm-resilience=/mnt/hung/run"],
        "nul": ["--comment=slurm-resilience=/a%00b"],
    }
    hostile = {
        name: Sleeper(cluster, name, "--ntasks=1", *options.get(name, [])) for name in names
    }
    good = Sleeper(cluster, "good", "--nodes=1")
    for job in (*hostile.values(), good):
        job.wait_for_attempt(0)
    paths = {name: attempt_directory(job.run_directory, 0) for name, job in hostile.items()}

    def plant() -> None:
        for name in names:
            paths[name].mkdir(parents=True)
        (paths["link"] / "incident.json").symlink_to("/etc/shadow")
        os.mkfifo(paths["pipe"] / "incident.json")
        with (paths["giant"] / "incident.json").open("wb") as file:
            file.truncate(1 << 30)
        (paths["nonsense"] / "incident.json").write_text('{"job": [[')

    as_alice(plant)
    (paths["foreign"] / "incident.json").write_text("{}")  # root's
    hostile["dated"].tell("n1", detected_at=9e12)
    forged = "\n\x1b[2Jslurm-resilience: job 1: forged\r" + "x" * 100_000
    hostile["forged"].tell("n1", reason=forged, retry="leave")
    good.tell(good.shown["NodeList"])
    good.wait_for_attempt(1, timeout_s=30)
    shown = cluster.run(["slurm-resilience", "status"], user="root").stdout
    said = stop(controller)

    assert {job.shown["Restarts"] for job in hostile.values()} == {"0"}
    for name, job in hostile.items():
        assert f"job {job.id}: attempt 0: leaves it: " in said, name
    assert "root:" not in said
    assert said.count("leaves it: its Comment names no path: 'slurm-resilience=/a%00b'") == 1
    assert "its incident is dated 9e+12, in the future; not used" in said
    for text in (said, shown):
        assert r"\n\x1b[2Jslurm-resilience: job 1: forged\r" in text
        assert text.replace("\n", "").isprintable()
        assert max(map(len, text.splitlines())) < 1200


def test_nothing_is_changed_while_slurm_is_silent(cluster: Cluster) -> None:
    """It says so once, asks again, and goes on when Slurm answers."""
    cluster.configure("slurm: {timeout_s: 0.5}\nrequeue: {tick_s: 0.2}\n")
    job = Sleeper(cluster, "train", "--nodes=1")
    job.wait_for_attempt(0)
    controller = start(cluster)
    cluster.controller.freeze("sbin/slurmctld")
    job.tell("n1")

    assert controller.stderr is not None
    said = controller.stderr.readline() + controller.stderr.readline()
    cluster.controller.thaw()
    job.wait_for_attempt(1)
    said += stop(controller)

    assert said.count("nothing is changed until Slurm answers") == 1
    assert "Slurm answers again" in said
    assert job.shown["Restarts"] == "1"


def test_without_a_controller_the_job_requeues_itself(cluster: Cluster) -> None:
    """From inside its own batch script, through Slurm's SIGTERM; the suspect is excluded."""
    script = cluster.home("alice") / "inside.py"
    script.write_text(INSIDE)
    output = cluster.home("alice") / "inside.out"
    job = cluster.sbatch(
        ["--nodes=1", "--exclude=n4", f"--output={output}", "--open-mode=append"],
        stdin=f"#!/bin/bash\nexec {sys.prefix}/bin/python3 {script}\n",
    )

    cluster.wait_for(lambda: cluster.job(job)["Restarts"] == "1", describe="a restart")
    shown = cluster.wait_for_job(job, "PENDING")

    assert shown["ExcNodeList"] == "n4,n1"
    assert "excluded; n4; n1; 'n9' is no node of this cluster" in output.read_text()
