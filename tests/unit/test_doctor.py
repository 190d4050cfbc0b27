"""What the doctor says of a slurm.conf and of the files in it: tables."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from slurm_resilience.config import Config
from slurm_resilience.doctor.facts import ClusterFacts, PlaceFacts, ProgramFacts
from slurm_resilience.doctor.looking import look
from slurm_resilience.doctor.rules import judge
from tests.fakes import FakeSlurm

SETTINGS = {
    "SLURM_VERSION": "22.05.8",
    "Prolog": "/etc/slurm/prolog.sh",
    "PrologFlags": "Alloc,Contain",
    "PrologEpilogTimeout": "60",
    "HealthCheckInterval": "300 sec",
    "HealthCheckNodeState": "ANY,CYCLE",
    "SchedulerParameters": "nohold_on_prolog_fail,batch_sched_delay=0",
    "JobRequeue": "1",
    "KillWait": "30 sec",
    "SlurmdTimeout": "300 sec",
    "ReturnToService": "1",
}
PROGRAMS = tuple(
    ProgramFacts(setting, f"/etc/slurm/{hook}.sh", hook=hook, version="0.1.0")
    for setting, hook in (
        ("Prolog", "prolog"),
        ("Epilog", "epilog"),
        ("HealthCheckProgram", "health"),
    )
)
SOUND = ClusterFacts(
    "0.1.0", (22, 5), SETTINGS, PROGRAMS, share="/opt/venv/share/slurm-resilience"
)


def with_setting(key: str, value: str | None) -> ClusterFacts:
    settings = {name: text for name, text in SETTINGS.items() if name != key}
    return replace(SOUND, settings=settings if value is None else settings | {key: value})


def with_prolog(**changes: object) -> ClusterFacts:
    return replace(SOUND, programs=(replace(PROGRAMS[0], **changes), *PROGRAMS[1:]))


def test_a_sound_cluster_gets_no_advice() -> None:
    """Nothing is wished for that is there."""
    assert {advice.level for advice in judge(SOUND)} == {"ok"}


@pytest.mark.parametrize(
    ("key", "value", "level", "line"),
    [
        ("PrologFlags", None, "must", "PrologFlags=Alloc,Contain"),
        ("PrologFlags", "X11", "must", "PrologFlags=Alloc,Contain"),
        ("PrologEpilogTimeout", "10", "must", "PrologEpilogTimeout=60"),
        ("PrologEpilogTimeout", "65534", "should", "PrologEpilogTimeout=60"),
        ("HealthCheckInterval", "0 sec", "must", "HealthCheckInterval=300"),
        ("HealthCheckInterval", None, "must", "HealthCheckInterval=300"),
        ("HealthCheckInterval", "3600 sec", "should", "HealthCheckInterval=300"),
        ("HealthCheckInterval", "10 sec", "should", "HealthCheckInterval=300"),
        ("HealthCheckNodeState", "NONDRAINED_IDLE,CYCLE", "must", "HealthCheckNodeState=ANY,CYCLE"),
        ("HealthCheckNodeState", "START_ONLY", "must", "HealthCheckNodeState=ANY,CYCLE"),
        ("HealthCheckNodeState", "IDLE,CYCLE", "should", "HealthCheckNodeState=ANY,CYCLE"),
        ("HealthCheckNodeState", "ANY", "should", "HealthCheckNodeState=ANY,CYCLE"),
        ("SchedulerParameters", None, "must", "SchedulerParameters=nohold_on_prolog_fail"),
        (
            "SchedulerParameters", "defer", "must",
            "SchedulerParameters=defer,nohold_on_prolog_fail",
        ),
        ("JobRequeue", "0", "should", "JobRequeue=1"),
        ("KillWait", "5 sec", "should", "KillWait=30"),
        ("SlurmdTimeout", "0 sec", "must", "SlurmdTimeout=300"),
        ("SlurmdTimeout", "3600 sec", "should", "SlurmdTimeout=300"),
        ("ReturnToService", "0", "should", "ReturnToService=1"),
        ("SLURM_VERSION", "21.08.8", "must", ""),
        ("SLURM_VERSION", "24.11.5", "should", ""),
    ],
)  # fmt: skip
def test_a_setting_that_does_not_do_gets_its_line(
    key: str, value: str | None, level: str, line: str
) -> None:
    """One advice names the key, how grave it is, and what to write."""
    (advice,) = [one for one in judge(with_setting(key, value)) if one.level != "ok"]

    assert (advice.subject, advice.level, advice.line) == (key, level, line)


LINE = "Prolog=/opt/venv/share/slurm-resilience/prolog/slurm-resilience-prolog"


@pytest.mark.parametrize(
    ("facts", "level", "said"),
    [
        (replace(SOUND, programs=PROGRAMS[1:]), "must", LINE),
        (with_prolog(found=False), "unseen", "not on this machine"),
        (with_prolog(hook="", version=""), "should", LINE),
        (with_prolog(hook="epilog"), "must", "is the epilog hook in the end"),
        (with_prolog(executable=False), "must", "chmod 755 /etc/slurm/prolog.sh"),
        (with_prolog(loose=("/etc/slurm",)), "must", "chown root /etc/slurm; chmod go-w"),
        (with_prolog(python=False), "must", "install again"),
        (with_prolog(version="0.0.9"), "should", "one version on every node"),
        (replace(SOUND, complaint="config.yaml: not YAML"), "must", "not YAML"),
        (replace(SOUND, state=PlaceFacts("/s", loose=("/s",))), "must", "chown root /s"),
        (replace(SOUND, state=PlaceFacts("/s", unread="run as root")), "unseen", "as root"),
        (replace(SOUND, off=("xid",)), "should", "slurm-resilience node on xid"),
    ],
    ids=["unset", "elsewhere", "not-ours", "another-hook", "no-run-bit", "loose", "no-python",
         "version", "configuration", "state", "unread", "switched-off"],
)  # fmt: skip
def test_a_hook_that_cannot_work_is_told(facts: ClusterFacts, level: str, said: str) -> None:
    """From a missing line to a folder that anybody may write to."""
    (advice,) = [one for one in judge(facts) if one.level != "ok"]

    assert advice.level == level
    assert said in f"{advice.what} {advice.line}"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to own what it looks at")
def test_a_program_is_looked_at_behind_its_links(tmp_path: Path) -> None:
    """Under any name; and whoever may change the link decides what root runs."""
    shim = tmp_path / "venv/share/slurm-resilience/prolog/slurm-resilience-prolog"
    shim.parent.mkdir(parents=True)
    shim.touch(mode=0o755)
    loose = tmp_path / "scripts"
    loose.mkdir()
    loose.chmod(0o777)
    (loose / "10-health.sh").symlink_to(shim)

    (found,) = programs_of("Prolog", f"{loose}/*.sh")

    assert (found.hook, found.executable, found.python) == ("prolog", True, False)
    assert str(loose) in found.loose
    for nothing in ("none", "none.d/*"):
        assert programs_of("Prolog", f"{tmp_path}/{nothing}")[0].found is False


def programs_of(setting: str, value: str) -> tuple[ProgramFacts, ...]:
    return look(_Slurm({"SLURM_VERSION": "22.05.8", setting: value}), Config(), "").programs


class _Slurm(FakeSlurm):
    def __init__(self, settings: dict[str, str]) -> None:
        super().__init__([], [])
        self._settings = settings

    def configuration(self) -> dict[str, str]:
        return self._settings
