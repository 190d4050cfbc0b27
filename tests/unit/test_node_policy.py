"""What becomes of a node: tables, properties, and actions that look first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from slurm_resilience.errors import SlurmError
from slurm_resilience.node.act import apply, look
from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.policy import (
    Decision,
    Drain,
    History,
    Keep,
    Resume,
    Situation,
    Standing,
    decide_node,
    remember,
    settle,
    unsettled,
)
from slurm_resilience.node.reason import MOST_CHARACTERS, OURS, parse_reason, reason_of
from slurm_resilience.slurm.values import Node
from tests.fakes import FakeSlurm

BOOT = "3f2c6a1e-0d4b-4c8f-9a57-2b1e5d7c9f00"
EARLIER = "[boot 00000000]"
THIS = "[boot 3f2c6a1e]"

REMAP_FAILED = Finding("row-remap-failed", Severity.DRAIN, "gpu3", "needs replacing", gpu=3)
REMAP_PENDING = Finding("row-remap-pending", Severity.DRAIN_WHEN_IDLE, "gpu3", "reset", gpu=3)
XID = Finding("xid", Severity.DRAIN, "gpu1", "Xid 79 fell off", gpu=1, sequence=70)
HUNG = Finding("probe-hung", Severity.UNKNOWN, "nvml", "no answer in its time")


def drained(reason: str) -> Standing:
    return Standing(drained=True, busy=False, reason=reason)


IDLE = Standing(drained=False, busy=False)
BUSY = Standing(drained=False, busy=True)
OURS_REMAP = drained(f"{OURS}row-remap-failed gpu3: needs replacing {THIS}")
OURS_DISK = drained(f"{OURS}disk-full /tmp: 99 % of space used {THIS}")
OURS_XID = drained(f"{OURS}xid gpu1: Xid 79 fell off {THIS}")
OURS_XID_EARLIER = drained(f"{OURS}xid gpu1: Xid 79 fell off {EARLIER}")
OURS_STRIKES = drained(f"{OURS}strikes node: 3 in a day")
ADMIN = drained("swap DIMM 4, ask Ann")
NAMELESS = drained("")
NOT_RESPONDING = replace(IDLE, reason="Not responding")

CLEAN_TWICE = History(BOOT, clean=2, drained_at=70)


def situation(**changes: object) -> Situation:
    usual = Situation("n1", "health", (), IDLE, History(BOOT))
    return replace(usual, **changes)


@pytest.mark.parametrize(
    ("now", "decided"),
    [
        pytest.param({"findings": (REMAP_FAILED,)}, "Drain", id="unfit"),
        pytest.param({"findings": (REMAP_FAILED,), "standing": BUSY}, "Drain", id="unfit-busy"),
        pytest.param(
            {"findings": (REMAP_PENDING,), "standing": BUSY},
            "Keep waits until it is idle",
            id="waits-for-the-job",
        ),
        pytest.param({"findings": (REMAP_PENDING,)}, "Drain", id="idle-now"),
        pytest.param(
            {"findings": (REMAP_PENDING,), "standing": BUSY, "hook": "prolog"},
            "Drain",
            id="nothing-new-on-a-node-that-needs-a-reset",
        ),
        pytest.param(
            {"findings": (REMAP_PENDING,), "standing": BUSY, "hook": "epilog"},
            "Drain",
            id="the-job-is-over",
        ),
        pytest.param({"findings": (HUNG,)}, "Keep fit", id="a-hung-probe-never-drains"),
        pytest.param({"findings": ()}, "Keep fit", id="fit"),
        pytest.param(
            {"findings": (REMAP_FAILED,), "observe": True},
            "Keep observing only: would be drained",
            id="observe",
        ),
        pytest.param(
            {"findings": (REMAP_FAILED,), "standing": None},
            "Keep Slurm did not say",
            id="silent-slurm",
        ),
        pytest.param(
            {"findings": (REMAP_FAILED,), "standing": ADMIN}, "Keep somebody else", id="admin"
        ),
        pytest.param(
            {"findings": (REMAP_FAILED,), "standing": NAMELESS},
            "Keep somebody else",
            id="drained-without-a-reason",
        ),
        pytest.param(
            {"findings": (REMAP_FAILED,), "standing": NOT_RESPONDING},
            "Keep somebody else",
            id="slurm-itself-set-a-reason",
        ),
        pytest.param(
            {"findings": (REMAP_FAILED,), "standing": OURS_REMAP},
            "Keep drained for it",
            id="same",
        ),
        pytest.param(
            {"findings": (REMAP_FAILED,), "standing": OURS_DISK}, "Drain", id="for-worse-by-now"
        ),
        pytest.param(
            {"standing": OURS_DISK, "history": CLEAN_TWICE}, "Resume", id="third-clean-pass"
        ),
        pytest.param(
            {"standing": OURS_DISK, "history": History(BOOT, clean=1)},
            "Keep clean 2 of 3 times",
            id="second-clean-pass",
        ),
        pytest.param(
            {"standing": OURS_DISK, "history": CLEAN_TWICE, "findings": (HUNG,)},
            "Keep not everything",
            id="not-clean-what-could-not-be-seen",
        ),
        pytest.param(
            {"standing": OURS_DISK, "history": CLEAN_TWICE, "hook": "prolog"},
            "Keep only the health check",
            id="a-prolog-gives-nothing-back",
        ),
        pytest.param(
            {"standing": OURS_DISK, "history": CLEAN_TWICE, "observe": True},
            "Keep observing only: would be given back",
            id="observe-gives-nothing-back",
        ),
        pytest.param(
            {"standing": OURS_XID, "history": CLEAN_TWICE},
            "Keep neither the node nor its driver",
            id="a-kernel-message-may-just-be-gone",
        ),
        pytest.param(
            {"standing": OURS_XID, "history": CLEAN_TWICE, "driver_reloaded": True},
            "Resume",
            id="after-a-driver-reload",
        ),
        pytest.param(
            {"standing": OURS_XID_EARLIER, "history": CLEAN_TWICE},
            "Resume",
            id="after-a-reboot",
        ),
        pytest.param(
            {"standing": OURS_STRIKES, "history": CLEAN_TWICE},
            "Keep drained for what no check here",
            id="the-controller-drained-it",
        ),
        pytest.param(
            {"standing": ADMIN, "history": CLEAN_TWICE}, "Keep somebody else", id="admin-fit"
        ),
    ],
)
def test_a_situation_has_its_decision(now: dict[str, object], decided: str) -> None:
    """Who drained it, whether it is busy, what is wrong, and how often it was clean decide."""
    decision = decide_node(situation(**now))

    told = type(decision).__name__ + (
        f" {decision.because}" if isinstance(decision, Keep) else ""
    )
    assert told.startswith(decided)


findings = st.lists(
    st.builds(
        Finding,
        check=st.sampled_from(sorted(CHECKS)),
        severity=st.sampled_from(Severity),
        subject=st.sampled_from(["gpu0", "node"]),
        detail=st.text(max_size=40),
    ),
    max_size=4,
).map(tuple)
reasons = st.sampled_from(
    ["", "Not responding", "Prolog error", "slurm-resilience", ADMIN.reason, OURS_DISK.reason]
)
standings = st.none() | st.builds(Standing, st.booleans(), st.booleans(), reasons)
histories = st.builds(History, st.just(BOOT), clean=st.integers(0, 9))
situations = st.builds(
    Situation,
    st.just("n1"),
    st.sampled_from(["prolog", "epilog", "health"]),
    findings,
    standings,
    histories,
    observe=st.booleans(),
    resume_after=st.integers(1, 4),
    driver_reloaded=st.booleans(),
)


@given(situations)
def test_nothing_is_done_to_what_is_not_ours(now: Situation) -> None:
    """A foreign reason, a nameless drain and a silent Slurm are left alone, whatever is found."""
    standing = now.standing
    foreign = standing is None or (
        not standing.reason.startswith(OURS) and (standing.drained or bool(standing.reason))
    )

    if foreign or now.observe:
        assert isinstance(decide_node(now), Keep)


@given(situations)
def test_only_a_fault_drains(now: Situation) -> None:
    """What could not be seen, and what is only worth a warning, never drains."""
    if all(one.severity < Severity.DRAIN_WHEN_IDLE for one in now.findings):
        assert not isinstance(decide_node(now), Drain)


# ── the reason ──────────────────────────────────────────────────────────────────────────────


def test_a_reason_says_what_where_and_in_which_boot() -> None:
    """Its form is fixed, since people read it and later versions lift it."""
    text = reason_of(REMAP_FAILED, BOOT)

    assert text == "slurm-resilience: row-remap-failed gpu3: needs replacing [boot 3f2c6a1e]"


@given(st.sampled_from(sorted(CHECKS)), st.text(min_size=1), st.text())
def test_every_reason_can_be_read_back(check: str, subject: str, detail: str) -> None:
    """Whatever a line of the kernel holds, the reason stays one line that we know again."""
    text = reason_of(Finding(check, Severity.DRAIN, subject, detail), BOOT)

    known = parse_reason(text)
    assert len(text) <= MOST_CHARACTERS
    assert "\n" not in text
    assert known is not None
    assert (known.check, known.boot) == (check, "3f2c6a1e")


@pytest.mark.parametrize(
    "text",
    ["", "NHC: ", "Prolog error: 571 xid 13 errors", "slurm-resilience", "Slurm: x y: z"],
)
def test_a_foreign_reason_is_nobody_of_ours(text: str) -> None:
    """Only the whole prefix makes a reason ours."""
    assert parse_reason(text) is None


# ── memory ──────────────────────────────────────────────────────────────────────────────────


def test_what_an_administrator_lifted_is_settled() -> None:
    """Who resumed the node by hand does not want it drained again for the same Xid."""
    history = settle(History(BOOT, drained_at=70), BOOT, IDLE)

    assert unsettled((XID,), history) == ()
    assert unsettled((replace(XID, sequence=71),), history) != ()


@pytest.mark.parametrize("standing", [None, OURS_XID], ids=["silent", "stands"])
def test_a_standing_drain_is_not_settled(standing: Standing | None) -> None:
    """Only a drain that is seen to be gone was lifted."""
    history = settle(History(BOOT, drained_at=70), BOOT, standing)

    assert unsettled((XID,), history) == (XID,)


def test_a_boot_begins_anew() -> None:
    """Kernel record numbers start again with each boot, and so does what was settled."""
    assert settle(History("other", clean=2, settled=99), BOOT, IDLE) == History(BOOT)


def test_clean_passes_are_counted_in_a_row() -> None:
    """A fault in between starts the count again, and the last pass gives the node back."""
    history = History(BOOT, drained_at=5)
    decisions: list[Decision] = []

    for found in [(), (), (REMAP_PENDING,), (), (), ()]:
        now = situation(standing=OURS_DISK, findings=found, history=history)
        decisions.append(decide_node(now))
        done = Keep("n1", "held") if found else decisions[-1]
        history = remember(now, done, newest=9)

    assert isinstance(decisions[-1], Resume)
    assert not [one for one in decisions[:-1] if isinstance(one, Resume)]
    assert history == History(BOOT, settled=9)


# ── action ──────────────────────────────────────────────────────────────────────────────────


def slurm_with(*, reason: str = "", drained: bool = False) -> FakeSlurm:
    flags = frozenset({"DRAIN"}) if drained else frozenset()
    return FakeSlurm([], [Node("n1", "IDLE", flags, reason)])


def test_a_drain_is_written_once() -> None:
    """An action may be repeated, and then changes nothing."""
    slurm = slurm_with()
    drain = Drain("n1", reason_of(REMAP_FAILED, BOOT))

    changed = [apply(drain, slurm), apply(drain, slurm)]

    assert changed == [True, False]
    assert look(slurm, "n1") == drained(drain.reason)


def test_an_action_looks_again() -> None:
    """An administrator who came in between keeps the node, reason and all."""
    slurm = slurm_with(reason=ADMIN.reason, drained=True)

    assert not apply(Drain("n1", reason_of(REMAP_FAILED, BOOT)), slurm)
    assert not apply(Resume("n1", OURS_DISK.reason), slurm)
    assert look(slurm, "n1") == ADMIN


def test_only_the_drain_that_was_decided_about_is_lifted() -> None:
    """A drain of ours for something else stands."""
    slurm = slurm_with(reason=OURS_REMAP.reason, drained=True)

    assert not apply(Resume("n1", OURS_DISK.reason), slurm)
    assert apply(Resume("n1", OURS_REMAP.reason), slurm)
    assert look(slurm, "n1") == IDLE


def test_an_unknown_node_is_an_error() -> None:
    """A node that Slurm does not list has no standing, least of all a good one."""
    with pytest.raises(SlurmError, match="n9"):
        look(slurm_with(), "n9")
