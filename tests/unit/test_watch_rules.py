"""Tables: what agents report -> can the job go on, and whom does it accuse."""

from collections.abc import Sequence

import msgspec
import pytest

from slurm_resilience.watch import facts
from slurm_resilience.watch.facts import GpuFacts, JobFacts, NodeFacts, RankFacts
from slurm_resilience.watch.policy import End, Finish, GoOn, Stop, accuse, decide
from slurm_resilience.watch.rules import evidence, judge
from slurm_resilience.watch.settings import WatchSettings

LIMITS = WatchSettings()


def rank(number: int, *, step: int = 10, phase: str = "step", state: str = "S") -> RankFacts:
    return RankFacts(number, 0, 1000 + number, step, phase, -1, age_s=0.0, state=state)


def node(name: str, *ranks: RankFacts, **more: object) -> NodeFacts:
    return msgspec.structs.replace(NodeFacts(name, ranks=ranks), **more)


def job(*reports: Sequence[tuple[float, NodeFacts]]) -> JobFacts:
    """A job that began at 0 on n1 and n2 and heard *reports* at their times."""
    seen = facts.began(0.0, ("n1", "n2"))
    for at, report in (pair for part in reports for pair in part):
        seen = facts.heard(seen, report, at)
    return seen


def stepping(step: int, at: float) -> list[tuple[float, NodeFacts]]:
    return [(at, node("n1", rank(0, step=step))), (at, node("n2", rank(1, step=step)))]


def test_a_job_that_steps_goes_on() -> None:
    """Progress on any rank is progress."""
    seen = job(stepping(1, 30.0), stepping(2, 60.0))

    assert judge(seen, LIMITS, 100.0) == []


def test_a_job_without_steps_is_stalled_after_its_limit() -> None:
    """Agents go on reporting; nothing moves."""
    seen = job(stepping(1, 30.0), stepping(2, 60.0), stepping(2, 655.0))

    assert [finding.id for finding in judge(seen, LIMITS, 661.0)] == ["no-progress"]
    assert judge(seen, LIMITS, 659.0) == []


@pytest.mark.parametrize(
    ("phase", "limit_s"),
    [("start", 1800.0), ("save", 1800.0), ("load", 1800.0), ("eval", 3600.0)],
)
def test_each_phase_has_its_own_limit(phase: str, limit_s: float) -> None:
    """One rank that saves keeps all others waiting, and that is no stall."""
    seen = job(stepping(1, 30.0), stepping(2, 60.0))
    seen = facts.heard(seen, node("n1", rank(0, step=2, phase=phase)), 60.0)
    late = 60.0 + limit_s

    early = [finding.id for finding in judge(seen, LIMITS, late - 1)]
    assert "no-progress" not in early
    assert "no-progress" in [finding.id for finding in judge(seen, LIMITS, late + 1)]


@pytest.mark.parametrize("phase", ["save", "load", "eval"])
def test_a_rank_that_is_stopped_in_a_save_is_not_given_the_time_of_one(phase: str) -> None:
    """It will not get on with it, so the job is stalled as soon as between two steps."""
    seen = job(stepping(1, 30.0), stepping(2, 60.0))
    seen = facts.heard(seen, node("n1", rank(0, step=2, phase=phase, state="T")), 60.0)

    found = judge(seen, LIMITS, 60.0 + LIMITS.stall_s + 1)

    assert "no-progress" in [finding.id for finding in found]


def test_a_job_with_long_steps_is_given_time() -> None:
    """Steps of twenty minutes are not a stall after ten."""
    seen = job(stepping(1, 1500.0), stepping(2, 2700.0), stepping(2, 5000.0))

    assert judge(seen, LIMITS, 5010.0) == []


def test_compilation_before_the_first_step_does_not_stretch_the_limit_for_ever() -> None:
    """The first step stands in for the usual one only until there is a second."""
    seen = job(stepping(1, 1500.0), stepping(2, 1501.0), stepping(2, 2110.0))

    assert [finding.id for finding in judge(seen, LIMITS, 2110.0)] == ["no-progress"]


def test_a_job_whose_ranks_have_no_heartbeat_is_not_judged() -> None:
    """Who does not use the library is not stopped for it."""
    seen = job([(10.0, node("n1")), (10.0, node("n2")), (9e4, node("n1")), (9e4, node("n2"))])

    assert judge(seen, LIMITS, 9e4) == []


def test_a_node_that_falls_silent_is_found_before_the_stall() -> None:
    """One node says nothing and the others stand still."""
    seen = job(stepping(5, 100.0), [(170.0, node("n1", rank(0, step=5)))])

    findings = judge(seen, LIMITS, 171.0)

    assert [(finding.id, finding.node) for finding in findings] == [("agent-silent", "n2")]


def test_silence_alone_is_no_fault_while_ranks_move() -> None:
    """A node that lost only its line to the supervisor trains on."""
    seen = job(stepping(5, 100.0), [(170.0, node("n1", rank(0, step=50)))])

    assert judge(seen, LIMITS, 171.0) == []


def test_a_broken_connection_may_come_back() -> None:
    """A short break is nothing; one that lasts is the agent's end."""
    seen = facts.disconnected(job(stepping(5, 100.0)), "n2")

    assert judge(seen, LIMITS, 104.0) == []
    assert [finding.id for finding in judge(seen, LIMITS, 106.0)] == ["agent-lost"]
    back = facts.connected(seen, "n2", 105.0)
    assert judge(back, LIMITS, 106.0) == []


def test_a_node_that_never_joins_is_named() -> None:
    """The step was started on two nodes and one came."""
    seen = job([(10.0, node("n1", rank(0, step=-1, phase="start")))])

    findings = judge(facts.heard(seen, node("n1"), 300.0), LIMITS, 301.0)

    assert [(finding.id, finding.node) for finding in findings] == [("agent-missing", "n2")]


def test_ranks_that_are_done_and_do_not_end_are_no_stall() -> None:
    """The work is whole: the attempt is finished, not tried again."""
    done = [
        (50.0, node("n1", rank(0, phase="done"))),
        (50.0, node("n2", rank(1, phase="done"))),
    ]
    seen = job(stepping(10, 40.0), done)
    seen = facts.heard(facts.heard(seen, done[0][1], 349.0), done[1][1], 349.0)

    assert isinstance(decide(judge(seen, LIMITS, 351.0), None), Finish)


def gpu(errors: int | None = 0, *, lost: bool = False, index: int = 0) -> GpuFacts:
    return GpuFacts(index, uuid=f"GPU-{index}", ecc_uncorrected=errors, lost=lost)


STUCK = rank(1)
BEFORE = node("n2", STUCK, gpus=(gpu(3),), links={"mlx5_0/1": "ACTIVE", "mlx5_1/1": "DOWN"})


CHANGES = {
    "an error more": (node("n2", STUCK, gpus=(gpu(4),)), "ecc-uncorrected"),
    "lost": (node("n2", STUCK, gpus=(gpu(None, lost=True),)), "gpu-lost"),
    "gone": (node("n2", STUCK, gpus=()), "gpu-lost"),
    "xid": (node("n2", STUCK, events=("NVRM: Xid (PCI:0000:44:00): 79",)), "kernel-event"),
    "link": (node("n2", STUCK, links={"mlx5_0/1": "DOWN"}), "link-down"),
    "T": (node("n2", rank(1, state="T")), "rank-stopped"),
    "D": (node("n2", rank(1, state="D")), "rank-uninterruptible"),
    "lower step": (node("n2", rank(1, step=9)), "rank-lagging"),
    "no rank": (node("n2"), "rank-missing"),
    "all as before": (node("n2", STUCK, gpus=(gpu(3),), links={"mlx5_1/1": "DOWN"}), None),
    "counter unread": (node("n2", STUCK, gpus=(gpu(None),)), None),
    "GPUs unread": (node("n2", STUCK, gpus=None), None),
}


@pytest.mark.parametrize(("after", "found"), CHANGES.values(), ids=CHANGES.keys())
def test_evidence_is_what_changed_since_the_attempt_began(
    after: NodeFacts, found: str | None
) -> None:
    """A counter or a link that was already so at the start, or could not be read, accuses nobody."""
    seen = job([(1.0, node("n1", rank(0), gpus=(gpu(),))), (1.0, BEFORE), (2.0, after)])

    assert [(finding.id, finding.node) for finding in evidence(seen, LIMITS, 3.0)] == (
        [(found, "n2")] if found else []
    )


def test_the_odd_phase_is_named() -> None:
    """One rank of four saves, the others step."""
    seen = job(
        [
            (1.0, node("n1", rank(0), rank(1))),
            (1.0, node("n2", rank(2), rank(3, phase="save"))),
        ]
    )

    assert [(finding.id, finding.rank) for finding in evidence(seen, LIMITS, 3.0)] == [
        ("rank-odd-phase", 3)
    ]


def test_the_hardware_outranks_what_a_rank_seems_to_do() -> None:
    """A stopped rank on one node, an ECC error on another: the ECC error decides."""
    seen = job(
        [
            (1.0, node("n1", rank(0), gpus=(gpu(0),))),
            (1.0, node("n2", rank(1))),
            (2.0, node("n1", rank(0), gpus=(gpu(1),))),
            (2.0, node("n2", rank(1, state="T"))),
        ]
    )

    blame = accuse(evidence(seen, LIMITS, 3.0), nodes=2)

    assert (
        blame.cause,
        blame.class_,
        blame.retry,
    ) == ("ecc-uncorrected", "hardware", "exclude-node")
    assert [suspect.node for suspect in blame.suspects] == ["n1"]
    assert len(blame.evidence) == 2


def test_what_all_nodes_share_accuses_none_of_them() -> None:
    """Every rank waits for the file system: that is no fault of a node."""
    seen = job([(1.0, node("n1", rank(0, state="D"))), (1.0, node("n2", rank(1, state="D")))])

    blame = accuse(evidence(seen, LIMITS, 3.0), nodes=2)

    assert (blame.class_, blame.retry, blame.suspects) == ("storage", "same-nodes", ())


def test_without_evidence_nobody_is_accused() -> None:
    """The same nodes are tried again."""
    blame = accuse([], nodes=2)

    assert (blame.cause, blame.retry, blame.suspects) == ("no-progress", "same-nodes", ())


def test_a_notice_is_passed_on_and_a_stall_outranks_it() -> None:
    """Slurm's notice stops a healthy job; a stalled one cannot answer it."""
    seen = job(stepping(1, 30.0), stepping(2, 60.0), stepping(2, 655.0))

    assert decide([], None) == GoOn()
    assert decide([], "preemption") == Stop("preemption")
    assert isinstance(decide(judge(seen, LIMITS, 700.0), "time-limit"), End)
