"""The real shims, run as slurmd runs them, on a machine of the test's own without any Slurm."""

import filecmp
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from testbed import nvml
from tests.node.conftest import SHARE, Machine

GO_ON, STOP = 0, 1
HEALTHY = nvml.h100s(2)
USER = 61001


def second(**changes: object) -> tuple[nvml.GpuState, ...]:
    return (HEALTHY[0], msgspec.structs.replace(HEALTHY[1], **changes))


BROKEN = second(remapped_rows=(0, 513, False, True))


# ── the verdict ─────────────────────────────────────────────────────────────────────────────


def test_a_healthy_node_takes_the_job_without_a_word(machine: Machine) -> None:
    """The first time and, from memory, the second."""
    for _ in range(2):
        done = machine.hook("prolog")

        assert (done.returncode, done.stdout, done.stderr) == (GO_ON, "", "")


def test_a_faulty_gpu_stops_the_job(machine: Machine) -> None:
    """Also where Slurm cannot be reached to write a reason: the exit status drains the node."""
    machine.show(BROKEN)

    done = machine.hook("prolog")

    assert done.returncode == STOP
    assert "row-remap-failed gpu1" in done.stderr


def test_another_jobs_gpu_stops_nobody(machine: Machine) -> None:
    """On a shared node a job is judged by its own GPUs."""
    machine.show(BROKEN)

    assert machine.hook("prolog", SLURM_JOB_GPUS="0").returncode == GO_ON
    assert machine.hook("prolog", SLURM_JOB_GPUS="1").returncode == STOP


def test_a_job_without_gpus_is_told_so(machine: Machine) -> None:
    """Its GPU checks are skipped, and that is said; the node's own faults still count."""
    machine.show(BROKEN)

    done = machine.hook("prolog", SLURM_JOB_GPUS="")

    assert done.returncode == GO_ON
    assert "GPU checks skipped" in done.stderr


def test_a_fault_after_a_fit_verdict_is_seen(machine: Machine) -> None:
    """Memory serves only the very same answers."""
    assert machine.hook("prolog").returncode == GO_ON

    machine.log("NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.")

    done = machine.hook("prolog")
    assert done.returncode == STOP
    assert "xid gpu0: Xid 79" in done.stderr


def test_an_applications_error_costs_no_node(machine: Machine) -> None:
    """Xid 13 is what a wrong index in a kernel does."""
    for _ in range(3):
        machine.log("NVRM: Xid (PCI:0000:1b:00): 13, pid=7, name=p, Graphics SM Warp Exception")

    assert machine.hook("prolog").returncode == GO_ON


def test_a_changed_configuration_counts_at_once(machine: Machine) -> None:
    """The plan that an earlier hook left goes with the file it came from."""
    assert machine.hook("prolog").returncode == GO_ON

    machine.configure("expect: {gpus: 3}")

    done = machine.hook("prolog")
    assert done.returncode == STOP
    assert "2 of 3 GPUs" in done.stderr


def test_the_prolog_takes_the_health_checks_word(machine: Machine) -> None:
    """What only the slow check can see stops jobs too, until the node is rebooted."""
    (machine.sysfs / "devices/system/edac/mc/mc0/ue_count").write_text("1\n")

    assert machine.hook("prolog").returncode == GO_ON
    assert machine.hook("health").returncode == GO_ON
    assert machine.hook("prolog").returncode == STOP
    machine.reboot()
    assert machine.hook("prolog").returncode == GO_ON


def test_a_broken_link_is_a_fault_only_where_it_is_expected(machine: Machine) -> None:
    """Most adapters have a port that nobody uses."""
    (machine.sysfs / "class/net/eth0/carrier").write_text("0\n")

    assert machine.hook("prolog").returncode == GO_ON
    machine.configure("expect: {links: {eth0: {}}}")
    assert machine.hook("prolog").returncode == STOP


# ── what must not cost a node ───────────────────────────────────────────────────────────────


def test_a_hanging_driver_is_not_waited_for(machine: Machine) -> None:
    """NVML that never answers is said and decides nothing."""
    machine.configure("budgets: {probe_s: 0.5}")
    machine.show(second(hangs={"nvmlDeviceGetUUID": ""}))

    done = machine.hook("prolog")

    assert done.returncode == GO_ON
    assert "probe-hung nvml" in done.stderr


def test_a_hanging_mount_is_not_waited_for(machine: Machine) -> None:
    """A process in D state is left behind; the hook and whoever reads its output go on."""
    machine.configure("expect: {disks: {/mnt: {}, /tmp: {}}}, budgets: {probe_s: 0.5}")
    hang = (
        f"{{ {sys.executable} -m testbed.hung_disk /mnt 2>/dev/null & echo $! >{machine.folder}/server; }}"
        f" | grep -q -m1 hung"
    )
    try:
        done = machine.hook("prolog", before=f"cd {Path(__file__).parents[2]}; {hang}")
    finally:
        os.kill(int((machine.folder / "server").read_text()), signal.SIGKILL)

    assert done.returncode == GO_ON
    assert "probe-hung disk:/mnt" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("node: {chekcs: {}}", "chekcs"),
        ("node: {checks: {xid-79: off}}", "xid-79"),
        ("node: [", "not YAML"),
    ],
)
def test_a_wrong_configuration_is_said_and_costs_no_job(
    machine: Machine, text: str, said: str
) -> None:
    """One line names the file and the key; the job starts on an unchecked node."""
    machine.config.write_text(text)

    done = machine.hook("prolog")

    assert done.returncode == GO_ON
    assert "/etc/slurm-resilience/config.yaml" in done.stderr
    assert said in done.stderr
    assert "unchecked" in done.stderr


def test_a_configuration_that_others_can_write_is_refused(machine: Machine) -> None:
    """Root's hook takes no orders from whoever may edit the file, also after it once did."""
    assert machine.hook("prolog").returncode == GO_ON

    machine.config.chmod(0o666)

    done = machine.hook("prolog")
    assert done.returncode == GO_ON
    assert "to write; chown root" in done.stderr


def test_memory_that_others_can_write_is_not_believed(machine: Machine) -> None:
    """What is kept between hooks counts only while it is root's alone."""
    machine.hook("prolog")
    kept = machine.state / "fit-gpu"
    machine.show(BROKEN)
    machine.hook("prolog")
    kept.write_bytes(
        kept.read_bytes().replace(b"'remap_failed': False", b"'remap_failed': True")
    )
    kept.chmod(0o666)

    assert machine.hook("prolog").returncode == STOP


@pytest.mark.parametrize("hook", ["prolog", "epilog", "health"])
def test_one_file_switches_everything_off(machine: Machine, hook: str) -> None:
    """At three in the morning: touch it, and no hook acts."""
    machine.show(BROKEN)
    (machine.state / "disabled").touch()

    done = machine.hook(hook)

    assert done.returncode == GO_ON
    assert "switched off" in done.stderr


FULL = """
mount -t tmpfs -o size=4k none /var/lib/slurm-resilience
head -c 4096 /dev/zero > /var/lib/slurm-resilience/other
"""


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("mount -o remount,bind,ro /var/lib/slurm-resilience", "Read-only file system"),
        (
            FULL,
            "No space left on device",
        ),
    ],
    ids=["read-only", "full"],
)
def test_what_cannot_be_kept_is_said_once(machine: Machine, before: str, why: str) -> None:
    """The hooks do their work all the same."""
    for hook in ("prolog", "health"):
        done = machine.hook(hook, before=before)

        assert done.returncode == GO_ON
        assert done.stderr.count("cannot be kept") == 1
        assert f"{hook}: /var/lib/slurm-resilience: {why}: " in done.stderr


@pytest.mark.usefixtures("machine")
def test_a_hook_run_by_an_ordinary_user_says_so() -> None:
    """In one line; and the shim makes no fault of it."""
    as_user = ["setpriv", "--reuid=61001", "--regid=61001", "--clear-groups"]
    by_hand = subprocess.run(
        [*as_user, f"{sys.prefix}/bin/slurm-resilience", "hook", "prolog"],
        capture_output=True,
        text=True,
        check=False,
    )
    through_the_shim = subprocess.run(
        [*as_user, str(SHARE / "prolog" / "slurm-resilience-prolog")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert by_hand.returncode == 2
    assert by_hand.stderr.startswith("slurm-resilience: prolog: only root can run a hook")
    assert by_hand.stderr.count("\n") == 1
    assert through_the_shim.returncode == GO_ON
    assert "Traceback" not in through_the_shim.stderr


def test_observing_stops_no_job(machine: Machine) -> None:
    """A site that tries this out sees what would be, and nothing else."""
    machine.configure("mode: observe")
    machine.show(BROKEN)

    done = machine.hook("prolog")

    assert done.returncode == GO_ON
    assert "row-remap-failed gpu1" in done.stderr


@pytest.mark.parametrize("hook", ["epilog", "health"])
def test_a_silent_slurm_drains_no_fit_node(machine: Machine, hook: str) -> None:
    """That Slurm cannot be asked is no fault of the node's."""
    assert machine.hook(hook).returncode == GO_ON


# ── the shims themselves ────────────────────────────────────────────────────────────────────


def test_the_three_shims_are_one_text() -> None:
    """What is true of one is true of all."""
    prolog = SHARE / "prolog/slurm-resilience-prolog"
    for other in ("prolog/slurm-resilience-health", "epilog/slurm-resilience-epilog"):
        assert filecmp.cmp(prolog, SHARE / other, shallow=False)


def test_a_shim_finds_its_python_through_links(machine: Machine) -> None:
    """Administrators link it where slurm.conf wants it."""
    machine.show(BROKEN)
    link = machine.folder / "10-health.sh"
    link.symlink_to(SHARE / "prolog/slurm-resilience-prolog")

    done = machine.run(link, {"SLURM_JOB_GPUS": "0,1"})

    assert done.returncode == STOP


@pytest.mark.parametrize(
    ("python", "status"),
    [
        (None, GO_ON),
        ("exit 10", STOP),
        ("exit 0", GO_ON),
        ("exit 1", GO_ON),
        ("exit 2", GO_ON),
        ("kill -SEGV $$", GO_ON),
        ("kill -KILL $$", GO_ON),
    ],
)
def test_only_the_word_unfit_stops_a_job(
    machine: Machine, python: str | None, status: int
) -> None:
    """A Python that is missing, crashes or fails lets the job run, and it is said."""
    prefix = machine.folder / "broken"
    shim = prefix / "share/slurm-resilience/prolog/slurm-resilience-prolog"
    shim.parent.mkdir(parents=True)
    shim.write_bytes((SHARE / "prolog/slurm-resilience-prolog").read_bytes())
    shim.chmod(0o755)
    if python is not None:
        (prefix / "bin").mkdir()
        (prefix / "bin/python").write_text(f"#!/bin/sh\n{python}\n")
        (prefix / "bin/python").chmod(0o755)

    done = machine.run(shim)

    assert done.returncode == status
    assert ("unchecked" in done.stderr) == (python not in {"exit 0", "exit 10"})


# ── leftovers ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def processes() -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    """Sleepers by name: of the job, of another job of its user, and of another user."""
    wanted = {"leftover": ("7", USER), "other job": ("8", USER), "other user": ("7", USER + 1)}
    started = {
        name: subprocess.Popen(
            ["/bin/sleep", "600"], env={"SLURM_JOB_ID": job}, user=user, group=user
        )
        for name, (job, user) in wanted.items()
    }
    yield started
    for process in started.values():
        process.kill()
        process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
def test_the_epilog_ends_what_its_job_left_and_nothing_else(
    machine: Machine, processes: dict[str, "subprocess.Popen[bytes]"]
) -> None:
    """Another job of the same user computes right beside it on a shared node."""
    machine.show(second(processes=tuple((one.pid, 1 << 30) for one in processes.values())))

    done = machine.hook("epilog", SLURM_JOB_UID=str(USER))

    assert done.returncode == GO_ON
    assert f"left process {processes['leftover'].pid} on gpu1" in done.stderr
    assert processes["leftover"].wait(30) == -signal.SIGKILL
    assert processes["other job"].poll() is None
    assert processes["other user"].poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
def test_observe_kills_nothing(
    machine: Machine, processes: dict[str, "subprocess.Popen[bytes]"]
) -> None:
    """Who only looks is told what would have been killed."""
    machine.configure("mode: observe")
    machine.show(second(processes=((processes["leftover"].pid, 1 << 30),)))

    done = machine.hook("epilog", SLURM_JOB_UID=str(USER))

    assert "would be killed" in done.stderr
    assert processes["leftover"].poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
def test_the_epilog_kills_nothing_where_the_jobs_gpus_cannot_be_told(
    machine: Machine, processes: dict[str, "subprocess.Popen[bytes]"]
) -> None:
    """It says what it found, and judges every GPU of the node."""
    machine.show(second(processes=((processes["leftover"].pid, 1 << 30),)))

    done = machine.hook("epilog", SLURM_JOB_UID=str(USER), SLURM_JOB_GPUS="GPU-of-another-node")

    assert f"left processes {processes['leftover'].pid}, and which GPUs it had" in done.stderr
    assert processes["leftover"].poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
def test_the_epilog_looks_only_at_its_jobs_gpus(
    machine: Machine, processes: dict[str, "subprocess.Popen[bytes]"]
) -> None:
    """A process on a GPU that the job did not have is none of its epilog's business."""
    machine.show(second(processes=((processes["leftover"].pid, 1 << 30),)))

    machine.hook("epilog", SLURM_JOB_UID=str(USER), SLURM_JOB_GPUS="0")

    assert processes["leftover"].poll() is None


def test_the_fast_path_imports_next_to_nothing() -> None:
    """Each of these takes as long to import as a probe to run, and every job would wait for it."""
    code = (
        "import sys; from slurm_resilience.node import hooks\n"
        "from slurm_resilience.node.probes import disk, kernel_log, network, nvml\n"
        "print(*sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    )

    heavy = {"typing", "re", "enum", "json", "pathlib", "msgspec", "yaml", "logging", "sh"}
    assert not heavy & set(done.stdout.split())
