"""From what was found to why it ended: order, survival, Slurm's record, suspects, patterns."""

import pytest

from slurm_resilience.diagnosis.facts import Left, Record, Said
from slurm_resilience.diagnosis.findings import Diagnosis
from slurm_resilience.diagnosis.lines import seconds_of, writer_of
from slurm_resilience.diagnosis.policy import decide
from slurm_resilience.incident import Incident, Suspect


def said(*lines: str, file: str = "slurm-1.out") -> tuple[Said, ...]:
    """Lines as they are read from a file, with their stamps."""
    return tuple(
        Said(line, file, number, number * 100, seconds_of(line))
        for number, line in enumerate(lines, 1)
    )


def decided(*lines: str, **rest: object) -> Diagnosis:
    return decide(Left(said(*lines), **rest))  # type: ignore[arg-type]


ECC = "[rank3]: CUDA error: uncorrectable ECC error encountered"
TIMEOUT = "[rank{0}]:[E321 02:07:08.408 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 milliseconds before timing out."
AT_WORK = "[rank{0}]:[E321 02:07:08.465 ProcessGroupNCCL.cpp:1664] [PG ID {1} PG GUID {1} Rank {0}] Exception (either an error or timeout) detected by watchdog at work: {2}, last enqueued NCCL work: {3}, last completed NCCL work: {4}."


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (("Connection reset by peer", "OSError: [Errno 122] Disk quota exceeded"), "quota"),
        (
            (
                "[E321 02:17:00.0 x] CUDA error: unspecified launch failure",
                "[E321 02:07:00.0 x] CUDA error: an illegal memory access was encountered",
            ),
            "cuda-illegal-access",
        ),
        (
            (
                "[E321 02:07:00.0 x] [rank1]: CUDA error: an illegal memory access was encountered",
                "Mar 21 02:07:03 node04 kernel: NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus",
            ),
            "gpu-lost",
        ),
        (
            (
                "[E321 02:07:00.0 x] [rank1]: CUDA error: an illegal memory access was encountered",
                "Mar 21 09:07:03 node04 kernel: NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus",
            ),
            "cuda-illegal-access",
        ),
        (
            (
                "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2025-01-10T15:27:25 DUE TO TIME LIMIT ***",
                "RuntimeError: CUDA out of memory",
            ),
            "slurm-time-limit",
        ),
        (
            (
                TIMEOUT.format(0, 1580),
                "terminate called after throwing an instance of 'c10::DistBackendError'",
                "E0321 02:12:38.8 api.py:826] failed (exitcode: -6) local_rank: 0 (pid: 9) of binary: python",
            ),
            "collective-timeout",
        ),
        (
            (
                "srun: error: n1: task 0: Exited with exit code 1",
                "[E x] failed (exitcode: -11) local_rank: 0 (pid: 1) of binary: python",
            ),
            "segfault",
        ),
        (
            (
                "W0823 16:54:02.3 api.py:688] Received Signals.SIGTERM death signal, shutting down workers",
                "E0823 16:54:32.3 api.py:688] failed (exitcode: -9) local_rank: 3 (pid: 1) of binary: python",
            ),
            "terminated",
        ),
    ],
    ids=[
        "cause before fallout", "by time, not by place", "a broken part explains it",
        "but not hours later", "Slurm outranks text", "what torch aborts for", "exit status last", "told to end, then killed",
    ],
)  # fmt: skip
def test_the_first_cause_decides(lines: tuple[str, ...], cause: str) -> None:
    """Whatever order the lines were printed in."""
    assert decided(*lines).cause == cause


def test_files_are_ordered_by_their_stamps() -> None:
    """The rank that failed first is found though its file comes last."""
    late = said("[E321 02:17:00.0 x] [rank0]: CUDA error: unspecified launch failure", file="0")
    early = said(
        "[E321 02:07:00.0 x] [rank9]: CUDA error: unspecified launch failure", file="9"
    )

    diagnosis = decide(Left((*late, *early)))

    assert [one.rank for one in diagnosis.suspects] == [9, 0]


def test_what_a_program_lived_through_did_not_end_it() -> None:
    """A full disk hours before does not hold a job that died of something else."""
    lived = Said("OSError: [Errno 28] No space left on device", "x", 1, 0, survived=True)
    died = Said(ECC, "x", 900, 9000)

    assert decide(Left((lived, died))).cause == "cuda-ecc"
    assert decide(Left((lived,))).class_ == "unknown"


NOT_FOUND = "/var/spool/slurm_script: line 12: {}: command not found"


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (("ModuleNotFoundError: No module named 'flash_attn'",), "user-error"),
        (("[rank3]: KeyError: 'trian'",), "user-error"),
        (("ValueError",), "unknown"),
        (("RuntimeError: something",), "unknown"),
        (
            (
                "tr.py: error: unrecognized arguments: --bogus 3",
                "  exitcode  : 2 (pid: 4711)",
            ),
            "usage",
        ),
        (("tr.py: error: at step 5", "  exitcode  : 1 (pid: 4711)"), "unknown"),
        ((NOT_FOUND.format("torchrun"),), "command-missing"),
        (
            (
                NOT_FOUND.format("nvidia-smi"),
                "srun: error: n1: task 0: Exited with exit code 9",
            ),
            "task-exit",
        ),
        (
            (
                NOT_FOUND.format("torchrun"),
                "srun: error: n1: task 0: Exited with exit code 127",
            ),
            "command-missing",
        ),
        ((NOT_FOUND.format("nvidia-smi"), "RuntimeError: something"), "unknown"),
        (
            (
                "srun: error: Task launch for StepId=1.0 failed on node n2: Transport endpoint is not connected",
            ),
            "slurm-launch-unanswered",
        ),
    ],
)
def test_the_programs_own_mistake_is_told(lines: tuple[str, ...], cause: str) -> None:
    """Also without a traceback; a program that may have met anything is unknown."""
    assert decided(*lines).cause == cause


@pytest.mark.parametrize(
    ("state", "class_", "retry"),
    [
        ("PREEMPTED", "preemption", "leave"),
        ("OUT_OF_MEMORY", "memory", "stop"),
        ("NODE_FAIL", "hardware", "exclude-node"),
        ("FAILED", "hardware", "exclude-node"),
        ("", "hardware", "exclude-node"),
        ("COMPLETED", "unknown", "stop"),
    ],
)
def test_slurms_record_outranks_the_text(state: str, class_: str, retry: str) -> None:
    """Except where it says no more than that the job failed."""
    diagnosis = decided(ECC, record=Record(state))

    assert (diagnosis.class_, diagnosis.retry) == (class_, retry)


GPU_LOST = Incident(
    "41", 0, "stall", "hardware", "gpu-lost", "a GPU of n2 is lost", "exclude-node", 0.0,
    (Suspect("n2", "lost"),),
)  # fmt: skip
NOTICE = Incident("41", 0, "notice", "preemption", "preemption", "asked to stop", "leave", 0.0)
CANCELLED = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2025-03-21T02:17:10 ***"
KILLED = "srun: error: n1: task 0: Killed"
RESET = "RuntimeError: Connection reset by peer"


@pytest.mark.parametrize(
    ("state", "lines", "incident", "cause"),
    [
        ("TIMEOUT", [], None, "slurm-time-limit"),
        ("TIMEOUT", [ECC], None, "cuda-ecc"),
        ("TIMEOUT", [TIMEOUT.format(0, 1580)], None, "collective-timeout"),
        ("TIMEOUT", [RESET], None, "slurm-time-limit"),
        ("TIMEOUT", [], GPU_LOST, "gpu-lost"),
        ("CANCELLED by 1000", [], None, "slurm-cancelled"),
        ("CANCELLED+", [TIMEOUT.format(0, 1580)], None, "collective-timeout"),
        ("CANCELLED", [TIMEOUT.format(0, 1580), CANCELLED], None, "collective-timeout"),
        ("CANCELLED", [TIMEOUT.format(0, 1580), CANCELLED, KILLED], None, "collective-timeout"),
        ("CANCELLED", [TIMEOUT.format(0, 1580), KILLED], None, "collective-timeout"),
        ("OUT_OF_MEMORY", [ECC, CANCELLED], None, "slurm-out-of-memory"),
        ("CANCELLED", [CANCELLED, ECC], None, "slurm-cancelled"),
        ("CANCELLED", [RESET, CANCELLED], None, "slurm-cancelled"),
        ("CANCELLED", [], NOTICE, "slurm-cancelled"),
        ("CANCELLED", [], GPU_LOST, "gpu-lost"),
        ("", [TIMEOUT.format(0, 1580), CANCELLED], None, "collective-timeout"),
    ],
)
def test_a_job_that_hung_until_it_was_ended_is_judged_by_what_it_hung_for(
    state: str, lines: list[str], incident: Incident | None, cause: str
) -> None:
    """A time limit or a cancel ends what hangs; Slurm's word stays as evidence."""
    diagnosis = decided(*lines, record=Record(state), incident=incident)

    assert diagnosis.cause == cause
    told = [line.text for line in diagnosis.evidence]
    assert not state or f"Slurm's record: {state}" in told


def test_the_nodes_that_slurm_lost_are_accused() -> None:
    """Also where no text is left."""
    diagnosis = decide(Left(record=Record("NODE_FAIL", ("n7",))))

    assert [one.node for one in diagnosis.suspects] == ["n7"]


def test_what_our_watchers_concluded_outranks_text() -> None:
    """They saw counters and heartbeats."""
    incident = Incident(
        "41", 0, "stall", "hardware", "rank-stopped", "rank 1 on n2 is stopped", "exclude-node",
        0.0, (Suspect("n2", "stopped", 1),),
    )  # fmt: skip

    diagnosis = decided("Connection reset by peer", incident=incident)

    assert (diagnosis.cause, diagnosis.suspects[0].node) == ("rank-stopped", "n2")


@pytest.mark.parametrize(
    ("lines", "ranks"),
    [
        ([TIMEOUT.format(rank, 1580) for rank in (0, 3, 4)], []),
        ([TIMEOUT.format(0, 96120), TIMEOUT.format(1, 96121), TIMEOUT.format(7, 64088)], [7]),
        ([TIMEOUT.format(0, 96120), TIMEOUT.format(1, 96121)], []),
        (
            [AT_WORK.format(rank, 1, 80, 82, 79) for rank in (0, 1, 2, 3)]
            + [AT_WORK.format(5, 1, 70, 79, 69)],
            [5],
        ),
        ([AT_WORK.format(0, 1, 216, 220, 215), AT_WORK.format(5, 2, 57, 57, 56)], []),
        (
            [AT_WORK.format(rank, 1, 80, 82, 79) for rank in (0, 1, 2, 3, 4, 6, 7)]
            + ["node1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 8 cudaDev 0"],
            [5],
        ),
        (
            [AT_WORK.format(rank, 1, 80, 82, 79) for rank in (0, 1)]
            + ["node1:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 8 cudaDev 0"],
            [],
        ),
    ],
    ids=["all at one", "one far behind", "next to each other", "behind in its group",
         "different groups", "the one that is silent", "most are silent"],
)  # fmt: skip
def test_who_reports_a_timeout_is_a_victim(lines: list[str], ranks: list[int]) -> None:
    """Suspects are those that lag behind in the same group, or the few that say nothing."""
    diagnosis = decided(*lines)

    assert diagnosis.cause == "collective-timeout"
    assert [one.rank for one in diagnosis.suspects] == ranks


@pytest.mark.parametrize(
    ("lines", "domains", "class_"),
    [
        (["srun: error: Node failure on n[1-4]"], {}, "power"),
        ([f"srun: error: Node failure on n{n}" for n in (1, 2, 3)], {}, "power"),
        (["srun: error: Node failure on n1"], {}, "hardware"),
        ([f"srun: error: Node failure on n{n}" for n in (1, 2)], {}, "hardware"),
        (
            [f"srun: error: Node failure on n{n}" for n in (1, 2)],
            {"n1": "s1", "n2": "s1", "n3": "s2"},
            "power",
        ),
        (
            [f"srun: error: Node failure on n{n}" for n in (1, 2)],
            {"n1": "s1", "n2": "s2"},
            "hardware",
        ),
        (
            [f"2026-01-01T0{n}:00:00 srun: error: Node failure on n{n}" for n in (1, 2, 3)],
            {},
            "hardware",
        ),
    ],
    ids=[
        "one line",
        "three at once",
        "one",
        "two",
        "two of one rack",
        "two racks",
        "hours apart",
    ],
)
def test_nodes_that_go_together_are_one_event(
    lines: list[str], domains: dict[str, str], class_: str
) -> None:
    """A feed, a rack or a switch, rather than each node."""
    assert decided(*lines, domains=domains).class_ == class_


def test_what_hangs_after_the_last_step_needs_no_retry() -> None:
    """The work is done; another attempt would do it again, or hang again."""
    lines = [TIMEOUT.format(rank, 1580) for rank in (0, 1)]

    assert decided(*lines).retry == "same-nodes"
    assert decided("finished: step 2000", *lines).retry == "stop"
    assert decided("Training completed. Do not forget to share", *lines).retry == "stop"
    assert decided("finished: step 2000", ECC).retry == "exclude-node"


def test_a_kernel_log_of_weeks_accuses_nobody_of_last_month() -> None:
    """Only what it says of the last hours before the end counts."""
    old = "Feb 11 02:07:03 node04 kernel: NVRM: Xid (PCI:0000:44:00): 79, GPU has fallen off the bus"

    assert decided(old, "[E321 02:07:00.0 x] Connection reset by peer").cause == "peer-closed"
    assert decided(old).cause == "gpu-lost"


@pytest.mark.parametrize(
    "line",
    [
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_Ha#0_Chan#0_DIMM#0",
        "XFS (nvme0n1p1): metadata I/O error in xfs_read_agf, shutting down",
        "INFO: task python3:4711 blocked for more than 120 seconds.",
        "nfs: server nas01 not responding, still trying",
    ],
)
def test_no_line_of_dmesg_tells_of_other_days(line: str) -> None:
    """Whatever it is about."""
    crash = "[E321 02:07:00.0 x] Connection reset by peer"

    assert decided(f"[Mon Mar 10 02:07:03 2025] {line}", crash).cause == "peer-closed"
    assert decided(f"[Fri Mar 21 02:06:59 2025] {line}", crash).cause != "peer-closed"


def test_what_all_nodes_print_is_no_fault_of_a_node() -> None:
    """Where it is known which nodes the job had."""
    lines = [f"n{number}: RuntimeError: No CUDA GPUs are available" for number in (1, 2)]

    some, all_ = decided(*lines, nodes=("n1", "n2", "n3")), decided(*lines, nodes=("n1", "n2"))

    assert [one.node for one in some.suspects] == ["n1", "n2"]
    assert (all_.suspects, all_.retry) == ((), "same-nodes")


def test_new_year_comes_after_december() -> None:
    """The line of the old year is the first."""
    later = "[E101 00:01:00.0 x] CUDA error: unspecified launch failure"
    sooner = "[E1231 23:50:00.0 x] CUDA error: an illegal memory access was encountered"

    assert decided(later, sooner).cause == "cuda-illegal-access"


def test_steps_that_slowed_before_ranks_lost_each_other_point_at_the_network() -> None:
    """Latency up several-fold, then the end."""
    slow = Said("step 59000 (came 7311 s after the one before, usually 124 s)", "x", 9)

    alone, slowed = (
        decided("Connection reset by peer"),
        decided("Connection reset by peer", slowed=slow),
    )

    assert (alone.class_, slowed.class_) == ("software", "network")
    assert slowed.evidence[-1].text == slow.text


@pytest.mark.parametrize(
    ("line", "rank", "node"),
    [
        ("[rank13]:[E218 04:54:22.8 x] [Rank 1] Watchdog", 13, None),
        ("[E ProcessGroupNCCL.cpp:458] [Rank 7] Watchdog caught", 7, None),
        ("[rank5]: x [PG ID 0 PG GUID 0(default_pg) Rank 2] y", 5, None),
        ("[1,12]<stdout>:node57:815:864 [0] NCCL WARN NET/IB", 12, "node57"),
        ("node01:984:1357 [4] ib_plugin.c:1615 NCCL WARN", None, "node01"),
        ("10.0.0.81: [rank19]:[E808] x", 19, "10.0.0.81"),
        ("gpu-a-7: RuntimeError: x", None, "gpu-a-7"),
        ("May 15 23:09:30 node03 kernel: NVRM: Xid", None, "node03"),
        ("slurmstepd-node07: error: x", None, "node07"),
        ("(Worker pid=1, ip=10.0.0.9) RuntimeError", None, "10.0.0.9"),
        ("RuntimeError: x", None, None),
        ("step12: CUDA error", None, None),
        ("Memory access fault by GPU node-2 (Agent handle: 0x1)", None, None),
    ],
)
def test_who_wrote_a_line_is_read_from_its_prefix(
    line: str, rank: int | None, node: str | None
) -> None:
    """Global ranks, never those inside a group; hosts, never words that look alike."""
    writer = writer_of(line)

    assert (writer.rank, writer.node) == (rank, node)


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("[rank0]:[E321 02:07:08.408271257 x]", 6919628.408271257),
        ("E1206 18:44:12.715 x", 29443452.715),
        ("2025-03-21T02:07:08.4 x", 6919628.4),
        ("[2025-03-21 02:07:08,400] x", 6919628.4),
        ("Mar 21 02:07:08 node1 kernel", 6919628.0),
        ("[Fri Mar 21 02:07:08 2025] NVRM", 6919628.0),
        ("[03/21/25 02:07:08] INFO", 6919628.0),
        ("99/99 77:77:77", None),
        ("step 3", None),
    ],
)
def test_the_moment_of_a_line_is_read_whatever_its_format(
    line: str, seconds: float | None
) -> None:
    """So that lines of several formats can be put in order."""
    assert seconds_of(line) == (None if seconds is None else pytest.approx(seconds))
