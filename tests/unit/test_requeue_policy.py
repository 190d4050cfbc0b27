"""What is decided about a job: tables, properties, and a crash between any two steps."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from slurm_resilience.incident import UNTOLD, Incident, Retry, Suspect
from slurm_resilience.requeue.act import bring_on
from slurm_resilience.requeue.facts import Excluded, JobFacts
from slurm_resilience.requeue.mark import marked, with_mark, without_mark
from slurm_resilience.requeue.policy import (
    Decision,
    Exclude,
    GiveUp,
    Hold,
    Leave,
    Mark,
    Release,
    Requeue,
    RequeueHold,
    StartNow,
    Unmark,
    Wait,
    decide,
)
from slurm_resilience.requeue.rules import exclusion, is_placeable
from slurm_resilience.requeue.settings import RequeueSettings
from slurm_resilience.slurm.values import Job, Node
from tests.fakes import REQUEUE_DELAY_S, FakeSlurm

NOW = 1000.0
SETTINGS = RequeueSettings()
COMMENT = "thesis slurm-resilience=/home/alice/run"
NODES = tuple(Node(f"n{n}", "IDLE", partitions=("gpu",)) for n in range(1, 6))
RUNNING = Job(
    "7", "RUNNING", user_id=1001, nodes=("n1", "n2"), nodes_needed=2, comment=COMMENT,
    partition="gpu", work_dir="/home/alice", started_at=NOW - 60,
)  # fmt: skip
PENDING = replace(
    RUNNING, state="PENDING", restarts=1, nodes=(), started_at=None, reason="BeginTime",
    begins_at=NOW + REQUEUE_DELAY_S,
)  # fmt: skip
MARKED = with_mark(COMMENT, 0)


def incident(attempt: int = 0, retry: Retry = "exclude-node", **fields: object) -> Incident:
    told = Incident(
        job="7", attempt=attempt, kind="stall", class_="hardware", cause="rank-stopped",
        reason="rank 3 on n2 stopped", retry=retry, detected_at=NOW - 1,
        suspects=(Suspect("n2", "its rank stopped"),), last_step=40, saved_step=40,
    )  # fmt: skip
    return replace(told, **fields)


def decided(
    job: Job, *history: Incident, nodes: tuple[Node, ...] = NODES, **more: object
) -> Decision:
    known = {"history": history, "pending_since": NOW - 5, **more}
    return decide(JobFacts(job, **known), nodes, SETTINGS, NOW)  # type: ignore[arg-type]


# ── a running job ───────────────────────────────────────────────────────────────────────────


def test_a_job_without_an_incident_is_left_alone() -> None:
    """Nothing happened, nothing is done."""
    assert decided(RUNNING) == Leave("no incident")


def test_the_mark_comes_before_the_requeue() -> None:
    """Who finds the job held must be able to tell whose hold it is."""
    assert decided(RUNNING, incident()) == Mark(0)
    assert decided(replace(RUNNING, comment=MARKED), incident()) == RequeueHold(
        "rank 3 on n2 stopped"
    )


@pytest.mark.parametrize("retry", ["same-nodes", "exclude-node"])
def test_what_is_worth_another_attempt_gets_one(retry: Retry) -> None:
    """With or without a node to keep away from."""
    assert decided(RUNNING, incident(retry=retry)) == Mark(0)


@pytest.mark.parametrize("retry", ["stop", "leave"])
def test_what_is_not_worth_another_attempt_is_left(retry: Retry) -> None:
    """The job ends by itself, or Slurm sees to it."""
    assert isinstance(decided(RUNNING, incident(retry=retry)), Leave)


def test_a_full_disk_is_held_with_its_reason() -> None:
    """Another attempt would fail the same way until a person has looked."""
    told = incident(retry="hold", reason="no space left on /ckpt")

    assert decided(RUNNING, told) == Hold("no space left on /ckpt")


@pytest.mark.parametrize(
    "told",
    [incident(attempt=1), incident(detected_at=NOW - 3600)],
    ids=["of another attempt", "older than the attempt"],
)
def test_an_incident_of_another_attempt_does_not_count(told: Incident) -> None:
    """A file left over from before must not end what runs now."""
    assert isinstance(decided(RUNNING, told), Leave)


@pytest.mark.parametrize("dated", [9e12, 1e308, 0.0, -5.0, NOW - 3600])
def test_an_incident_with_an_impossible_date_is_not_used_and_that_is_said(dated: float) -> None:
    """Not for the requeue of what runs; not for where it waits, nor for how long that took."""
    told = incident(detected_at=dated)
    running = decided(RUNNING, told)
    on_its_way = decided(
        replace(PENDING, comment=MARKED, begins_at=None),
        incident(detected_at=NOW + dated * 1e3 if dated > NOW else dated - 1e9),
    )

    assert isinstance(running, Leave)
    assert running.because.startswith("its incident is dated ")
    assert running.because.endswith("; not used")
    assert len(running.because) < 80
    assert on_its_way == Unmark("it is on its way")


OVER = replace(RUNNING, state="FAILED", signal=9)


@pytest.mark.parametrize(
    ("over", "said"),
    [
        (OVER, "its supervisor was killed (signal 9)"),
        (replace(OVER, signal=11), "its supervisor was killed (signal 11)"),
        (
            replace(OVER, state="NODE_FAIL", signal=None),
            "its supervisor was killed (NODE_FAIL)",
        ),
        (
            replace(OVER, state="OUT_OF_MEMORY", signal=None),
            "its supervisor was killed (OUT_OF_MEMORY)",
        ),
    ],
    ids=["KILL", "SEGV", "node", "memory"],
)
def test_a_job_whose_supervisor_was_killed_goes_back_to_the_queue(over: Job, said: str) -> None:
    """Nobody was left to write an incident, and nobody asked for its end."""
    assert decided(over) == Requeue(said)
    assert decided(over, incident(cause=UNTOLD, detected_at=0.0)) == Requeue(said)
    assert decided(replace(over, can_requeue=False)) == GiveUp(
        f"{said}; submitted with --no-requeue"
    )


@pytest.mark.parametrize(
    "over",
    [
        replace(OVER, state="CANCELLED"),
        replace(OVER, state="COMPLETED", signal=None),
        replace(OVER, state="TIMEOUT"),
        replace(OVER, state="PREEMPTED"),
        replace(OVER, signal=None),
        replace(OVER, signal=15),
        replace(OVER, signal=2),
        replace(OVER, signal=10),
        replace(OVER, flags=frozenset({"COMPLETING"})),
    ],
    ids=lambda job: f"{job.state}-{job.signal}",
)
def test_a_job_that_ended_otherwise_is_over(over: Job) -> None:
    """Cancelled, done, out of time, failed with a status, asked to end by a signal, not yet over."""
    assert isinstance(decided(over), Leave)


def test_a_killed_supervisor_whose_end_is_known_is_left() -> None:
    """Its incident has the word; what cannot be read now, or trusted, decides nothing."""
    assert isinstance(decided(OVER, incident(retry="stop")), Leave)
    assert decided(OVER, unread="no answer in 2 s") == Leave("no answer in 2 s")
    assert decided(OVER, untrusted="a link; not used") == Leave("a link; not used")


def test_a_supervisor_that_is_killed_again_and_again_is_given_up() -> None:
    """The same budget as for any other end; the job is over and stays so."""
    before_a_step = [
        incident(n, cause=UNTOLD, class_="unknown", last_step=None, retry="same-nodes")
        for n in (0, 1)
    ]
    nowhere = [incident(n, cause=UNTOLD, class_="unknown", saved_step=3) for n in range(4)]

    assert isinstance(decided(replace(OVER, restarts=1), *before_a_step), GiveUp)
    assert isinstance(decided(replace(OVER, restarts=3), *nowhere), GiveUp)
    assert isinstance(decided(replace(OVER, restarts=2), *nowhere[:3]), Requeue)


def test_a_job_submitted_with_no_requeue_is_given_up_in_words() -> None:
    """Slurm would refuse; its owner is told why nothing happens."""
    decision = decided(replace(RUNNING, can_requeue=False), incident())

    assert isinstance(decision, GiveUp)
    assert "--no-requeue" in decision.because


def test_a_job_in_its_grace_before_preemption_is_slurms() -> None:
    """Slurm requeues it when the grace is over; what preempted an earlier attempt does not count."""
    assert isinstance(decided(replace(RUNNING, preempted_at=NOW - 5), incident()), Leave)
    assert decided(replace(RUNNING, preempted_at=NOW - 500), incident()) == Mark(0)


def test_a_job_whose_node_does_not_answer_slurm_is_left_to_it() -> None:
    """Slurm could not clean it up sooner; marked, so that its supervisor knows of us."""
    marked_job = replace(RUNNING, comment=MARKED)
    gone = tuple(
        replace(node, flags=frozenset({"NOT_RESPONDING"})) if node.name == "n1" else node
        for node in NODES
    )
    long_ago = replace(marked_job, started_at=NOW - 5000)

    assert decided(RUNNING, incident(), nodes=gone) == Mark(0)
    assert isinstance(decided(marked_job, incident(), nodes=gone), Leave)
    assert isinstance(
        decided(long_ago, incident(detected_at=NOW - 601), nodes=gone), RequeueHold
    )


def test_slurm_has_some_time_to_notice_that_a_node_is_silent() -> None:
    """It is usually gone for Slurm too."""
    marked_job = replace(RUNNING, comment=MARKED)

    silent = {"cause": "agent-silent"}
    assert isinstance(decided(marked_job, incident(**silent)), Leave)  # type: ignore[arg-type]
    later = incident(detected_at=NOW - 21, cause="agent-silent")
    assert isinstance(decided(marked_job, later), RequeueHold)


def test_a_job_held_while_it_ran_stays_held() -> None:
    """A hold that a person put on a running job is meant for its next attempt."""
    decision = decided(replace(RUNNING, held=True, reason="JobHeldUser"), incident())

    assert isinstance(decision, Hold)


def test_a_file_system_that_hangs_changes_nothing() -> None:
    """What could not be read is not "no incident"."""
    marked_job = replace(RUNNING, comment=MARKED)

    assert decided(marked_job, unread="no answer in 2 s") == Leave("no answer in 2 s")


def test_a_mark_that_was_overtaken_is_taken_off() -> None:
    """The next attempt runs; its own incident must not find an old mark."""
    job = replace(RUNNING, restarts=1, comment=MARKED)

    assert isinstance(decided(job), Unmark)


# ── how often ───────────────────────────────────────────────────────────────────────────────


def test_attempts_without_a_newer_checkpoint_are_counted() -> None:
    """After three in a row the job is held."""
    history = [incident(0, saved_step=40), *(incident(n, saved_step=40) for n in (1, 2, 3))]

    assert isinstance(decided(replace(RUNNING, restarts=2), *history[:3]), Mark)
    decision = decided(replace(RUNNING, restarts=3), *history)
    assert isinstance(decision, Hold)
    assert "3 attempts in a row made no newer checkpoint" in decision.because


def test_progress_starts_the_count_anew() -> None:
    """A long job may meet many faults, as long as it gets on between them."""
    history = [incident(n, saved_step=100 * (n + 1)) for n in range(9)]

    assert isinstance(decided(replace(RUNNING, restarts=8), *history), Mark)


def test_preemption_is_not_the_jobs_fault() -> None:
    """It does not use up attempts."""
    history = [incident(n, class_="preemption", saved_step=None) for n in range(5)]

    assert isinstance(decided(replace(RUNNING, restarts=4), *history), Mark)


def test_a_set_up_error_is_tried_once_more() -> None:
    """A job that twice fails before its first step will fail a third time."""
    told = {"class_": "software", "retry": "same-nodes", "last_step": None, "saved_step": None}

    assert isinstance(decided(RUNNING, incident(0, **told)), Mark)  # type: ignore[arg-type]
    twice = [incident(n, **told) for n in (0, 1)]  # type: ignore[arg-type]
    assert isinstance(decided(replace(RUNNING, restarts=1), *twice), Hold)


# ── a job on its way back ───────────────────────────────────────────────────────────────────


def test_suspects_are_joined_to_what_the_owner_excluded() -> None:
    """An update replaces the list, so the old names must be in it."""
    job = replace(PENDING, comment=MARKED, held=True, excluded=("n5",))

    assert decided(job, incident()) == Exclude(("n5", "n2"))


def test_nodes_are_excluded_while_the_old_attempt_is_cleaned_up() -> None:
    """Slurm takes them as soon as the job no longer runs; its start time it would forget."""
    job = replace(PENDING, flags=frozenset({"COMPLETING"}), comment=MARKED, held=True)

    assert decided(job, incident()) == Exclude(("n2",))
    assert isinstance(decided(replace(job, excluded=("n2",)), incident()), Wait)


def test_completing_where_slurm_hides_the_state_beneath() -> None:
    """squeue before 23.11 says only COMPLETING."""
    job = replace(PENDING, state="COMPLETING", flags=frozenset({"COMPLETING"}), comment=MARKED)

    assert decided(job, incident()) == Exclude(("n2",))


def test_the_rest_of_the_way() -> None:
    """Release, then the begin time, then the mark."""
    held = replace(PENDING, comment=MARKED, held=True, reason="JobHeldUser", excluded=("n2",))
    released = replace(held, held=False)
    started = replace(released, begins_at=NOW)

    assert decided(held, incident()) == Release()
    assert decided(released, incident()) == StartNow()
    assert isinstance(decided(started, incident()), Unmark)


def test_a_job_is_not_started_in_the_second_in_which_it_was_ended() -> None:
    """slurmd would refuse it as already killed, and Slurm would fail the job for good."""
    job = replace(PENDING, comment=MARKED, excluded=("n2",))

    assert isinstance(decided(job, incident(), pending_since=None), Wait)
    assert isinstance(decided(job, incident(), pending_since=NOW - 0.9), Wait)
    assert decided(job, incident(), pending_since=NOW - 1.2) == StartNow()
    held = replace(job, held=True, reason="JobHeldUser")
    assert isinstance(decided(held, incident(), pending_since=NOW - 0.9), Wait)


def test_a_persons_hold_is_never_released() -> None:
    """Neither the owner's, which bears no mark, nor an administrator's, whatever the mark says."""
    by_owner = replace(PENDING, held=True, reason="JobHeldUser", excluded=("n2",))
    by_admin = replace(by_owner, reason="JobHeldAdmin", comment=MARKED)
    old_mark = replace(by_owner, restarts=4, comment=MARKED)

    assert decided(by_owner, incident()) == Leave("held by its owner or an administrator")
    assert isinstance(decided(by_admin, incident()), Unmark)
    assert isinstance(decided(old_mark, incident()), Unmark)


def test_a_job_whose_incident_cannot_be_read_stays_held_for_now() -> None:
    """Without it the suspects are unknown, and the job may need the same file system."""
    job = replace(PENDING, comment=MARKED, held=True)

    assert decided(job, unread="no answer in 2 s") == Leave("no answer in 2 s")


def test_a_job_whose_incident_is_gone_or_untrusted_still_comes_back() -> None:
    """Held for ever would be worse than without the exclusion."""
    job = replace(PENDING, comment=MARKED, held=True)

    assert decided(job, untrusted="incident.json: a link; not used") == Release()


def test_what_slurm_requeued_itself_only_has_its_delay_lifted() -> None:
    """Preempted, or its prolog failed: no second requeue."""
    assert decided(PENDING) == StartNow()
    assert isinstance(decided(replace(PENDING, begins_at=NOW)), Leave)


def test_nodes_that_are_down_are_excluded_where_the_job_ran_on_them() -> None:
    """A node that loses power leaves no incident."""
    down = [replace(n, state="DOWN") if n.name in {"n2", "n4"} else n for n in NODES]

    decision = decided(PENDING, nodes=tuple(down), last_nodes=("n1", "n2"))

    assert decision == Exclude(("n2",))


def test_a_begin_time_of_the_users_own_stays() -> None:
    """Only what is as near as Slurm's own delay is lifted."""
    assert isinstance(decided(replace(PENDING, begins_at=NOW + 3600)), Leave)
    assert isinstance(decided(replace(PENDING, restarts=0)), Leave)


def test_a_job_that_fails_everywhere_does_not_race_through_the_cluster() -> None:
    """Each early start of a job whose prolog fails drains a node; after three Slurm's pace rules."""
    assert decided(PENDING, early_starts=2) == StartNow()
    assert isinstance(decided(PENDING, early_starts=3), Leave)
    assert (
        decided(replace(PENDING, comment=MARKED, excluded=("n2",)), incident(), early_starts=9)
        == StartNow()
    )


def test_a_job_goes_on_where_slurm_will_not_have_the_exclusion() -> None:
    """Refused once, it is not asked for again."""
    job = replace(PENDING, comment=MARKED, held=True)

    assert decided(job, incident(), refused="Invalid node name") == Release(())


# ── which nodes ─────────────────────────────────────────────────────────────────────────────


def test_names_that_are_no_nodes_are_dropped_and_said() -> None:
    """The file is the user's; it can hold anything."""
    told = incident(suspects=(Suspect("ALL", "x"), Suspect("n[1-5]", "x"), Suspect("n2", "x")))
    job = replace(PENDING, comment=MARKED, held=True)

    assert decided(job, told) == Exclude(
        ("n2",), ("'ALL' is no node of this cluster", "'n[1-5]' is no node of this cluster")
    )


def test_a_node_that_the_job_asked_for_by_name_is_not_excluded() -> None:
    """It would wait for ever."""
    job = replace(PENDING, comment=MARKED, held=True, required=("n2",))

    assert decided(job, incident()) == Release(("n2 was asked for by name",))


def test_exclusions_expire() -> None:
    """A node that was repaired is used again; what the owner excluded stays."""
    job = replace(PENDING, excluded=("n3", "n4", "n5"))
    ours = (Excluded("n4", NOW - 90_000), Excluded("n5", NOW - 100))

    assert decided(job, ours=ours) == Exclude(("n3", "n5"))


def test_the_oldest_exclusion_gives_way() -> None:
    """Five nodes, two needed: three may be excluded."""
    job = replace(PENDING, comment=MARKED, held=True, excluded=("n3", "n4", "n5"))
    ours = tuple(Excluded(f"n{n}", NOW - 100 * n) for n in (3, 4, 5))

    assert decided(job, incident(), ours=ours) == Exclude(
        ("n2", "n3", "n4"), ("without n5 the job could not be placed",)
    )


names = st.sampled_from([f"n{n}" for n in range(1, 9)])
lists = st.lists(names, max_size=8, unique=True).map(tuple)


@given(
    owners=lists, ours=lists, accused=lists, away=lists, needed=st.integers(1, 4),
    ages=st.lists(st.floats(0, 200_000), min_size=8, max_size=8),
)  # fmt: skip
def test_a_job_that_could_be_placed_still_can(  # noqa: PLR0913, PLR0917 - what hypothesis varies
    owners: tuple[str, ...],
    ours: tuple[str, ...],
    accused: tuple[str, ...],
    away: tuple[str, ...],
    needed: int,
    ages: list[float],
) -> None:
    """Whatever is accused: the owner's list is kept, and ours leaves room."""
    nodes = [
        Node(f"n{n}", "DOWN" if f"n{n}" in away else "IDLE", partitions=("gpu",))
        for n in range(1, 9)
    ]
    ours = tuple(node for node in ours if node not in owners)
    job = replace(PENDING, excluded=(*owners, *ours), nodes_needed=needed)
    added = tuple(Excluded(node, NOW - age) for node, age in zip(ours, ages, strict=False))
    facts = JobFacts(job, ours=added)

    wanted = exclusion(facts, accused, nodes, SETTINGS, NOW)

    assert set(owners) <= set(wanted.nodes)
    assert set(wanted.nodes) <= {*owners, *ours, *accused}
    assert len(wanted.nodes) == len(set(wanted.nodes))
    if is_placeable(job, nodes, without=owners):
        assert is_placeable(job, nodes, without=wanted.nodes)
    again = exclusion(
        replace(facts, job=replace(job, excluded=wanted.nodes)), accused, nodes, SETTINGS, NOW
    )
    assert set(again.nodes) <= {*wanted.nodes}


# ── a crash between any two steps ───────────────────────────────────────────────────────────


def world() -> FakeSlurm:
    return FakeSlurm([replace(RUNNING, excluded=("n5",))], NODES, NOW)


class Process:
    """A controller of one life: it remembers only since when it has seen which attempt wait."""

    def __init__(self, slurm: FakeSlurm, *history: Incident) -> None:
        self.slurm = slurm
        self.history = history
        self.since: dict[int, float] = {}

    def known(self, job: Job) -> JobFacts:
        if job.is_pending:
            self.since.setdefault(job.restarts, self.slurm.now)
        return JobFacts(job, history=self.history, pending_since=self.since.get(job.restarts))

    def tick(self) -> Iterator[Decision]:
        slurm = self.slurm
        steps = bring_on(
            slurm.job("7"), self.known, slurm.nodes(), slurm, SETTINGS, slurm.clock
        )
        return (decision for _, decision in steps)

    def run(self, most: int = 20) -> None:
        for _ in range(most):
            list(self.tick())
            self.slurm.advance(0.4)


@pytest.mark.parametrize("steps", range(9))
@pytest.mark.parametrize("late", [False, True], ids=["at once", "after it completed"])
def test_whoever_comes_next_finishes_the_way(steps: int, late: bool) -> None:  # noqa: FBT001
    """Stopped after any number of steps, a fresh controller brings the job to the same end."""
    slurm, told = world(), incident()
    first, done = Process(slurm, told), 0
    for _ in range(9):
        for _ in first.tick():
            if done == steps:
                break
            done += 1
        if done == steps:
            break
        slurm.advance(0.4)
    if late:
        slurm.advance()

    Process(slurm, told).run()

    job = slurm.job("7")
    assert job is not None
    assert slurm.requeues == [("7", 0)]
    assert slurm.starts == [("7", 1, ("n1", "n3"))]
    assert (job.state, job.excluded, job.comment) == ("RUNNING", ("n5", "n2"), COMMENT)
    assert slurm.now < NOW + REQUEUE_DELAY_S


def test_preempted_between_mark_and_requeue_it_is_not_requeued_again() -> None:
    """Slurm was quicker; the suspects are excluded all the same."""
    slurm, told = world(), incident()
    steps = Process(slurm, told).tick()
    assert next(steps) == Mark(0)
    assert isinstance(next(steps), RequeueHold)
    slurm.preempt("7")

    Process(slurm, told).run()

    assert slurm.requeues == []
    assert slurm.starts == [("7", 1, ("n1", "n3"))]


@given(
    events=st.lists(
        st.sampled_from(["tick", "advance", "crash", "admin", "owner", "release", "preempt"]),
        max_size=25,
    ),
    stop_after=st.integers(0, 6),
)
def test_whatever_people_and_slurm_do_meanwhile(events: list[str], stop_after: int) -> None:
    """No attempt is requeued twice, and an administrator's hold is never lifted."""
    slurm, told = world(), incident()
    process = Process(slurm, told)
    for event in events:
        job = slurm.job("7")
        assert job is not None
        held_by_admin = job.held and job.reason == "JobHeldAdmin"
        match event:
            case "tick" | "crash":
                for count, _ in enumerate(process.tick()):
                    if event == "crash" and count == stop_after:
                        process = Process(slurm, told)
                        break
                job = slurm.job("7")
                assert job is not None
                assert not held_by_admin or job.held
            case "advance":
                slurm.advance(0.4)
            case "admin" if job.is_pending:
                slurm.hold("7", admin=True)
            case "owner" if job.is_pending:
                slurm.hold("7")
            case "release":
                slurm.release("7")
            case "preempt" if job.is_running:
                slurm.preempt("7")
            case _:
                pass

    assert len(slurm.requeues) == len(set(slurm.requeues)) <= 1


@given(saved=st.lists(st.integers(0, 3), min_size=12, max_size=12))
def test_a_job_that_gets_nowhere_is_not_tried_for_ever(saved: list[int]) -> None:
    """Attempts in a row without a newer checkpoint stay below the limit."""
    slurm = world()
    history: list[Incident] = []
    for attempt, step in enumerate(saved):
        history.append(incident(attempt, saved_step=step, detected_at=slurm.now, suspects=()))
        Process(slurm, *history).run()
        job = slurm.job("7")
        assert job is not None
        if not job.is_running:
            break

    assert (job and job.held) or len(set(saved)) > 1
    newest, futile = -1, 0
    for told in history:
        better = (told.saved_step or 0) > newest
        newest, futile = (told.saved_step or 0, 0) if better else (newest, futile + 1)
        assert futile <= SETTINGS.max_futile_attempts


# ── the mark ────────────────────────────────────────────────────────────────────────────────


@given(st.text(), st.integers(0, 999_999_999))
def test_the_mark_leaves_the_rest_of_a_comment(comment: str, attempt: int) -> None:
    """What others wrote there stays, word for word."""
    words = [
        word for word in comment.split() if not word.startswith("slurm-resilience-requeue=")
    ]

    assert marked(with_mark(comment, attempt)) == attempt
    assert without_mark(with_mark(comment, attempt)).split() == words


@pytest.mark.parametrize(
    "word", ["slurm-resilience-requeue=", "slurm-resilience-requeue=-1", "x"]
)
def test_what_is_no_mark(word: str) -> None:
    """Only our own word with a number."""
    assert marked(word) is None
