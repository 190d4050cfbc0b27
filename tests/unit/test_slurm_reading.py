"""What Slurm's JSON says, by version: answers recorded from 22.05.8, 24.11.5, 26.05.5 and others."""

import json
from pathlib import Path

import pytest

from slurm_resilience.errors import SlurmError, SlurmSilentError
from slurm_resilience.slurm.configuration import read_configuration
from slurm_resilience.slurm.hostlist import MOST_NODES, expand
from slurm_resilience.slurm.reading import read_jobs, read_nodes
from slurm_resilience.slurm.states import node_state
from slurm_resilience.slurm.values import Job

ANSWERS = Path(__file__).parents[1] / "slurm_json"


def jobs_of(name: str) -> dict[str, Job]:
    return {job.id: job for job in read_jobs((ANSWERS / name).read_bytes())}


def one(**fields: object) -> Job:
    record = {"job_id": 7, "job_state": "RUNNING", "user_id": 1001, **fields}
    (job,) = read_jobs(json.dumps({"jobs": [record]}).encode())
    return job


def test_a_running_job_of_2205() -> None:
    """Attempt, nodes, comment and times are read from bare numbers and words."""
    job = jobs_of("squeue_22.05.8.json")["1"]

    assert job.is_running
    assert job.nodes == ("n1", "n2")
    assert job.nodes_needed == 2
    assert job.comment == "site note slurm-resilience"
    assert (job.restarts, job.user_id, job.partition) == (0, 1001, "all")
    assert job.work_dir == "/home/alice/train"
    assert job.started_at == 1796090513
    assert not job.held


def test_where_a_job_writes() -> None:
    """Its output, and its errors where they go elsewhere."""
    same = one(standard_output="/home/alice/%j.out", standard_error="/home/alice/%j.out")
    apart = one(standard_output="/home/alice/%j.out", standard_error="/home/alice/%j.err")

    assert same.outputs == ("/home/alice/%j.out",)
    assert apart.outputs == ("/home/alice/%j.out", "/home/alice/%j.err")
    assert one().outputs == one(standard_output="", standard_error=None).outputs == ()


def test_a_job_that_slurm_requeued_after_a_node_failed() -> None:
    """It waits for Slurm's own delay: no nodes, a begin time, one restart."""
    job = jobs_of("squeue_22.05.8.json")["5"]

    assert job.is_pending
    assert (job.reason, job.restarts, job.nodes) == ("BeginTime", 1, ())
    assert job.begins_at == 1796090795


def test_a_requeued_job_still_completing_is_neither_running_nor_pending() -> None:
    """squeue 22.05 prints COMPLETING in place of the state beneath."""
    job = jobs_of("squeue_22.05.8.json")["3"]

    assert not job.is_running
    assert not job.is_pending
    assert job.held


@pytest.mark.parametrize(
    ("exit_code", "signal"),
    [
        (9, 9),
        (0, None),
        (137 << 8, None),
        (None, None),
        (
            {
                "status": "SIGNALED",
                "return_code": 0,
                "signal": {"signal_id": 9, "name": "KILL"},
            },
            9,
        ),
        (
            {
                "status": ["SIGNALED"],
                "signal": {"id": {"set": True, "number": 9}, "name": "KILL"},
            },
            9,
        ),
        (
            {"status": ["ERROR"], "signal": {"id": {"set": False, "number": 0}, "name": ""}},
            None,
        ),
        ({"status": ["PENDING"]}, None),
    ],
)
def test_the_signal_that_ended_a_job_is_read(exit_code: object, signal: int | None) -> None:
    """As 22.05, 23.02 and 24.05 write it; a shell's 137 is a status, and a new attempt has none."""
    assert one(job_state="FAILED", exit_code=exit_code).signal == signal
    assert one(job_state="PENDING", exit_code=exit_code).signal is None


def test_array_tasks_are_named_as_slurm_takes_them() -> None:
    """`<array>_<task>`; the record of tasks that never started is not mistaken for one of them."""
    jobs = jobs_of("squeue_22.05.8.json")

    assert {"6_0", "6_1", "6_3"} <= set(jobs)
    assert jobs["6_0"].held
    assert "7" not in jobs
    assert "8" not in jobs
    assert one(array_job_id=6, array_task_id=None, array_task_string="2-9%2").id == "6_[2-9%2]"


def test_a_heterogeneous_job_is_its_leader() -> None:
    """Its parts are no jobs of their own: the leader needs their nodes too."""
    jobs = jobs_of("squeue_22.05.8.json")

    assert jobs["10"].nodes_needed == 2
    assert "11" not in jobs


@pytest.mark.parametrize("version", ["24.11.5", "26.05.5"])
def test_newer_slurms_say_the_same_in_other_shapes(version: str) -> None:
    """Running, requeued and held, still completing, array task, heterogeneous."""
    jobs = jobs_of(f"squeue_{version}.json")

    running, held, leaving, leader = jobs["1"], jobs["2_0"], jobs["8"], jobs["6"]
    assert (running.is_running, running.nodes, running.nodes_needed) == (True, ("n1", "n2"), 2)
    assert (running.restarts, running.held, running.can_requeue) == (0, False, True)
    assert running.started_at
    assert running.comment == "site note slurm-resilience"
    assert (held.is_pending, held.held, held.reason, held.restarts) == (
        True, True, "JobHeldUser", 1,
    )  # fmt: skip
    assert held.begins_at
    assert (leaving.is_pending, leaving.is_running, leaving.restarts) == (False, False, 1)
    assert "COMPLETING" in leaving.flags
    assert leader.nodes_needed == 2
    assert "7" not in jobs
    assert jobs["2_1"].is_running


@pytest.mark.parametrize("version", ["24.11.5", "26.05.5"])
def test_nodes_of_newer_slurms(version: str) -> None:
    """By `scontrol show nodes --json`: the state is a list, its first word the base."""
    nodes = {n.name: n for n in read_nodes((ANSWERS / f"nodes_{version}.json").read_bytes())}

    assert (nodes["n1"].state, nodes["n1"].is_usable) == ("ALLOCATED", True)
    assert nodes["n3"].is_drained
    assert nodes["n3"].reason == "it's = \"x"  # scontrol drops a quote at the end
    assert nodes["n1"].boot_time == 1796089592


@pytest.mark.parametrize(
    ("state", "reason"), [(["IDLE", "DRAIN"], "x"), (["DOWN"], "x"), (["IDLE"], "")]
)
def test_a_reason_left_over_from_an_earlier_drain_does_not_count(
    state: list[str], reason: str
) -> None:
    """Slurm 24.11 keeps it when the node is given back; it must not keep others from draining."""
    answer = {"nodes": [{"name": "n1", "state": state, "reason": "x"}]}

    (node,) = read_nodes(json.dumps(answer).encode())

    assert node.reason == reason


def test_numbers_of_2302_are_structs() -> None:
    """{set, infinite, number} is the number, or nothing."""
    job = jobs_of("squeue_23.02.6.json")["1618871"]

    assert job.is_running
    assert job.nodes == ("node041",)
    assert (job.nodes_needed, job.restarts, job.held) == (1, 0, False)


def test_states_of_2311_are_lists() -> None:
    """The base state and the flags beside it."""
    leaving = one(job_state=["RUNNING", "COMPLETING"])

    assert one(job_state=["RUNNING"]).is_running
    assert leaving.state == "RUNNING"
    assert not leaving.is_running
    assert not one(job_state=["PENDING", "REQUEUE_HOLD"], priority=0).is_running


def test_configuring_is_running() -> None:
    """A job whose prologs still run has its nodes already."""
    assert one(job_state="CONFIGURING", nodes="n1").is_running


def test_node_lists_come_as_text_and_as_structs() -> None:
    """24.05 wraps them."""
    assert one(nodes={"count": 2, "list": "n[1-2]"}).nodes == ("n1", "n2")
    assert one(excluded_nodes=["n1", "n3"]).excluded == ("n1", "n3")


def test_a_silent_controller_is_not_an_empty_queue() -> None:
    """squeue 22.05 exits 0 and prints no jobs when slurmctld does not answer."""
    with pytest.raises(SlurmSilentError, match="Failed while looking for jobs"):
        read_jobs((ANSWERS / "squeue_22.05.8_silent.json").read_bytes())


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"slurm_load_jobs error", b'{"jobs": 1}'])
def test_nonsense_is_not_an_empty_queue(text: bytes) -> None:
    """What is not understood is an error."""
    with pytest.raises(SlurmError):
        read_jobs(text)


def test_a_comment_cannot_pretend_to_be_other_fields() -> None:
    """Whatever a user writes there stays in the comment."""
    spoof = 'x JobState=PENDING\n"restart_cnt": 9, Restarts=9 UserId=root(0)'
    job = one(comment=spoof, restart_cnt=1)

    assert (job.comment, job.restarts, job.user_id) == (spoof, 1, 1001)


def test_one_user_cannot_blind_us_with_broken_text() -> None:
    """Slurm prints the bytes of a Comment as they are; the other jobs are still read."""
    text = b'{"jobs": [{"job_id": 1, "job_state": "RUNNING", "user_id": 5, "comment": "\xff\xfe"}]}'

    (job,) = read_jobs(text)

    assert job.comment == "\ufffd\ufffd"


def test_nodes_of_2205() -> None:
    """Base state, flags, and the reason without Slurm's stamp."""
    nodes = {
        node.name: node for node in read_nodes((ANSWERS / "sinfo_22.05.8.json").read_bytes())
    }

    assert nodes["n1"].is_drained
    assert nodes["n1"].reason == "Prolog error"
    assert (nodes["n2"].state, nodes["n2"].is_usable) == ("DOWN", False)
    assert "NOT_RESPONDING" in nodes["n2"].flags
    assert nodes["n3"].is_usable
    assert nodes["n3"].partitions == ("all",)


@pytest.mark.parametrize(
    ("words", "base", "flags"),
    [
        (["DOWN*+DRAIN"], "DOWN", {"NOT_RESPONDING", "DRAIN"}),
        (["IDLE+DRAIN+MAINTENANCE+RESERVED"], "IDLE", {"DRAIN", "MAINTENANCE", "RESERVED"}),
        (["idle", "DRAIN"], "IDLE", {"DRAIN"}),
        (["MIXED", "DRAIN", "PLANNED"], "MIXED", {"DRAIN", "PLANNED"}),
        (["mix-"], "MIXED", {"PLANNED"}),
        (["alloc"], "ALLOCATED", set()),
        (["drng*"], "ALLOCATED", {"DRAIN", "NOT_RESPONDING"}),
        (["drained"], "IDLE", {"DRAIN"}),
        (["IDLE+CLOUD+POWERING_UP"], "IDLE", {"CLOUD", "POWERING_UP"}),
        (["IDLE+CLOUD+POWER"], "IDLE", {"CLOUD", "POWERED_DOWN"}),
        (["idle~"], "IDLE", {"POWERED_DOWN"}),
        (["IDLE#"], "IDLE", {"POWERING_UP"}),
        (["IDLE+DRAIN+REBOOT"], "IDLE", {"DRAIN", "REBOOT_REQUESTED"}),
        (["idle@"], "IDLE", {"REBOOT_REQUESTED"}),
        (["down^*"], "DOWN", {"REBOOT_ISSUED", "NOT_RESPONDING"}),
        (["resv"], "UNKNOWN", {"RESERVED"}),
        ([], "UNKNOWN", set()),
    ],
    ids=lambda value: "+".join(value) or "none" if isinstance(value, list) else "",
)
def test_a_nodes_state_by_base_and_flags(words: list[str], base: str, flags: set[str]) -> None:
    """Suffixes, short forms and the names from before 21.08 say the same as today's words."""
    assert node_state(words) == (base, frozenset(flags))


def test_when_a_reason_was_set() -> None:
    """By it people see since when, and drains of one moment find their order."""
    (node, *_) = read_nodes((ANSWERS / "sinfo_22.05.8.json").read_bytes())

    assert node.reason_at == 1796090620


@pytest.mark.parametrize("suffix", ["", "[0]"], ids=["22.05", "24.11"])
def test_a_configuration_by_its_keys(suffix: str) -> None:
    """Later versions number what may stand twice; what is not set is not there."""
    text = (
        "Configuration data as of 2026-12-01T07:00:00\n"
        "AccountingStorageUser   = (null)\n"
        f"Prolog{suffix}                  = /opt/a prolog\n"
        + ("Prolog[1]               = /opt/b\n" if suffix else "")
        + "PrologFlags             = Alloc,Contain\n"
        "SchedulerParameters     = nohold_on_prolog_fail,max_array_tasks=9\n"
        "SLURM_VERSION           = 22.05.8\n"
        "\nSlurmctld(primary) at ctl is UP\n"
    )

    found = read_configuration(text)

    assert found["Prolog"] == "/opt/a prolog" + (",/opt/b" if suffix else "")
    assert found["SchedulerParameters"] == "nohold_on_prolog_fail,max_array_tasks=9"
    assert "AccountingStorageUser" not in found
    assert "Configuration" not in found


def test_a_configuration_that_is_none_is_refused() -> None:
    """An empty answer is not a slurm.conf with everything at its default."""
    with pytest.raises(SlurmError, match="SLURM_VERSION"):
        read_configuration("")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3,5],m7", ["n1", "n2", "n3", "n5", "m7"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("gpu[1]-ib", ["gpu1-ib"]),
        ("", []),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    """Slurm's short form stands for these nodes."""
    assert list(expand(text)) == names


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("n[1-", "not a host list"),
        ("n[a]", "not a host list"),
        ("n]1", "not a host list"),
        ("n[1-2,]", "not a host list"),
        (",", "not a host list"),
        ("n1,", "not a host list"),
        ("n[5-3]", "5-3 runs backwards"),
        ("n[1-99999999]", "more than 65536 nodes"),
        ("n[1-9999][1-9999][1-9999]", "more than 65536 nodes"),
        (",".join(["n[1-9999]"] * 7), "more than 65536 nodes"),
        ("n" + "[1]" * 2000, "not a host list"),
        (f"n[{'9' * 6000}]", "not a host list"),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_host_list(text: str, why: str) -> None:
    """It is refused in one short line, at once, and not guessed at."""
    with pytest.raises(ValueError, match=why) as refused:
        expand(text)
    assert len(str(refused.value)) < 160


def test_as_many_nodes_as_slurm_has() -> None:
    """The largest list that it takes."""
    assert len(expand("n[00001-65536]")) == MOST_NODES
