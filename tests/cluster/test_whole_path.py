"""The whole path: sbatch, torchrun, a fault from outside, the controller, the finished run."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_resilience.incident import Incident
from slurm_resilience.run_directory import read_incident
from testbed import Cluster, TestbedError

pytestmark = pytest.mark.cluster

SHARE = Path(sys.prefix) / "share" / "slurm-resilience"
CONFIG = "watch: {stall_s: 6, report_s: 0.5}\n"
STEPS = 120
EVERY_STEPS = 20


class Training:
    """One submitted training of alice's, seen as she would see it."""

    def __init__(
        self, cluster: Cluster, folder: Path, *options: str, steps: int = STEPS
    ) -> None:
        self.cluster = cluster
        self.folder = folder
        self.output = folder / "training.out"
        self.result = folder / "result.json"
        self.job = cluster.sbatch(
            [
                "--nodes=2", "--gpus-per-node=1", f"--output={self.output}", *options,
                "torchrun_multi_node.sbatch", "train.py", f"--steps={steps}",
                f"--every-steps={EVERY_STEPS}", "--step-seconds=0.1",
                f"--checkpoints={folder}/checkpoints", f"--out={self.result}",
            ],
            user="alice",
            cwd=folder,
            env={"SLURM_RESILIENCE_CONFIG": str(folder / "config.yaml")},
        )  # fmt: skip

    @property
    def shown(self) -> dict[str, str]:
        return self.cluster.job(self.job)

    @property
    def text(self) -> str:
        return self.output.read_text() if self.output.exists() else ""

    @property
    def nodes(self) -> list[str]:
        listed = self.cluster.run(["scontrol", "show", "hostnames", self.shown["NodeList"]])
        return listed.stdout.split()

    @property
    def excluded(self) -> str:
        return self.shown.get("ExcNodeList", "")

    def step(self) -> int:
        lines = [line.split() for line in self.text.splitlines()]
        steps = [
            int(line[1].partition("/")[0])
            for line in lines
            if len(line) > 1 and line[0] == "step"
        ]
        return steps[-1] if steps else -1

    def incident(self, attempt: int) -> Incident | None:
        return read_incident(self.folder / "slurm-resilience" / self.job, attempt)

    def wait_for(self, what: Callable[[], bool], timeout_s: float, describe: str) -> None:
        try:
            self.cluster.wait_for(what, timeout_s, describe)
        except TestbedError as error:
            pytest.fail(f"{error}\n── {self.output}\n{self.text}")

    def wait_for_step(self, step: int, timeout_s: float = 90) -> None:
        self.wait_for(lambda: self.step() >= step, timeout_s, f"step {step}")

    def wait_for_state(self, state: str, timeout_s: float = 90) -> None:
        self.wait_for(lambda: self.shown.get("JobState") == state, timeout_s, f"state {state}")

    def wait_for_restart(self, attempt: int, timeout_s: float = 60) -> None:
        self.wait_for(lambda: self.is_running(attempt), timeout_s, f"attempt {attempt}")

    def is_running(self, attempt: int) -> bool:
        shown = self.shown
        return shown["JobState"] == "RUNNING" and int(shown["Restarts"]) >= attempt


@pytest.fixture
def folder(cluster: Cluster, request: pytest.FixtureRequest) -> Path:
    """A folder of alice's with the template and the example in it, as the README has it."""
    name: str = request.node.name
    path = cluster.home("alice") / name
    path.mkdir()
    for shipped in ("sbatch_templates/torchrun_multi_node.sbatch", "examples/train.py"):
        shutil.copy(SHARE / shipped, path)
    (path / "config.yaml").write_text(CONFIG)
    for entry in (path, *path.iterdir()):
        shutil.chown(entry, 61001, 61001)
    return path


@pytest.fixture
def controller(cluster: Cluster) -> Iterator[None]:
    """The controller, beside slurmctld."""
    process = cluster.popen(["slurm-resilience", "controller"], user="root")
    yield
    process.terminate()
    process.communicate(timeout=30)


@pytest.fixture(scope="module")
def undisturbed(cluster: Cluster) -> dict[str, object]:
    """The result of the same training without a fault, two ranks on one node."""
    folder = cluster.home("alice") / "undisturbed"
    folder.mkdir()
    shutil.copy(SHARE / "examples/train.py", folder)
    shutil.chown(folder, 61001, 61001)
    cluster.run(
        ["torchrun", "--nproc-per-node=2", "train.py", f"--steps={STEPS}", "--out=result.json"],
        cwd=folder,
        timeout_s=120,
    )
    result: dict[str, object] = json.loads((folder / "result.json").read_text())
    return result


@pytest.mark.usefixtures("controller")
def test_an_unfit_node_is_drained_and_the_job_runs_elsewhere(
    cluster: Cluster, folder: Path
) -> None:
    """Submitted once, the job runs on other nodes with no help, and sinfo -R says why."""
    cluster.nodes["n1"].gpu(0).set(remap_failed=1)

    training = Training(cluster, folder, steps=20)  # n1 is the first that Slurm would pick
    training.wait_for_restart(1, timeout_s=15)

    assert "n1" not in training.nodes
    reason = cluster.run(["sinfo", "--noheader", "--nodes=n1", "--format=%E"]).stdout
    assert reason.startswith("slurm-resilience: row-remap-failed gpu0")
    training.wait_for_state("COMPLETED")


@pytest.mark.usefixtures("controller")
def test_a_frozen_rank_is_found_and_the_run_ends_as_if_nothing_had_been(
    cluster: Cluster, folder: Path, undisturbed: dict[str, object]
) -> None:
    """Stall found, stacks kept, node named and excluded; final parameters equal bit for bit."""
    training = Training(cluster, folder)
    training.wait_for_step(EVERY_STEPS * 2)
    victim = training.nodes[1]

    for pid in cluster.nodes[victim].ranks().values():
        os.kill(pid, signal.SIGSTOP)
    training.wait_for_restart(1)
    training.wait_for_state("COMPLETED")

    incident = training.incident(0)
    assert incident is not None
    assert (incident.kind, [suspect.node for suspect in incident.suspects]) == (
        "stall",
        [victim],
    )
    stacks = folder / "slurm-resilience" / training.job / "attempt-0" / "stacks"
    assert "train.py" in "".join(path.read_text() for path in stacks.iterdir())
    assert training.excluded == victim
    assert json.loads(training.result.read_text())["digest"] == undisturbed["digest"]


@pytest.mark.usefixtures("controller")
def test_a_notice_before_the_time_limit_saves_and_goes_on(
    cluster: Cluster, folder: Path
) -> None:
    """A final checkpoint within the lead; the next attempt goes on; the output is appended."""
    training = Training(cluster, folder, "--time=1", "--signal=B:USR2@25", steps=650)
    training.wait_for_restart(1, timeout_s=100)
    training.wait_for_state("COMPLETED", timeout_s=200)

    incident = training.incident(0)
    assert incident is not None
    assert (incident.kind, incident.class_) == ("notice", "time-limit")
    assert incident.last_step is not None
    assert incident.saved_step == incident.last_step
    assert training.excluded in {"", "(null)"}
    assert f"from step {incident.saved_step + 1}" in training.text
    assert training.text.index("attempt 0") < training.text.index("attempt 1")


@pytest.mark.parametrize("which", [0, 1], ids=["batch host", "other node"])
@pytest.mark.usefixtures("controller")
def test_power_loss_is_survived_without_the_two_minute_wait(
    cluster: Cluster,
    folder: Path,
    undisturbed: dict[str, object],
    which: int,
) -> None:
    """Requeued once, the dead node excluded, finished."""
    training = Training(cluster, folder)
    training.wait_for_step(EVERY_STEPS * 2)
    victim = training.nodes[which]

    cluster.nodes[victim].power_off()
    training.wait_for_restart(1, timeout_s=90)
    training.wait_for_state("COMPLETED")

    assert training.shown["Restarts"] == "1"
    assert training.excluded == victim
    assert json.loads(training.result.read_text())["digest"] == undisturbed["digest"]
