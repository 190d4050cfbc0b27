"""What becomes of a node: tables, properties, and actions that look first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from slurm_resilience.errors import SlurmError
from slurm_resilience.node.act import apply, look
from slurm_resilience.node.checks import CHECKS
from slurm_resilience.node.findings import Finding, Severity
from slurm_resilience.node.kernel_lines import KernelEvent
from slurm_resilience.node.policy import (
    after_boot,
    decide_node,
    remember,
    settle,
    strike_of,
    unsettled,
)
from slurm_resilience.node.policy.budget import is_over
from slurm_resilience.node.policy.lifting import is_restarted
from slurm_resilience.node.policy.reason import MOST_CHARACTERS, OURS, parse_reason, reason_of
from slurm_resilience.node.policy.standing import (
    Decision,
    Drain,
    History,
    Keep,
    Resume,
    Situation,
    Standing,
    joined,
)
from slurm_resilience.node.policy.strikes import Strike, Thing
from slurm_resilience.node.settings import Drains, NodeSettings
from slurm_resilience.slurm.values import Node
from tests.fakes import FakeSlurm

BOOT = "3f2c6a1e-0d4b-4c8f-9a57-2b1e5d7c9f00"
EARLIER = "[boot 00000000]"
THIS = "[boot 3f2c6a1e]"

REMAP_FAILED = Finding("row-remap-failed", Severity.DRAIN, "gpu3", "needs replacing", gpu=3)
REMAP_PENDING = Finding("row-remap-pending", Severity.DRAIN_WHEN_IDLE, "gpu3", "reset", gpu=3)
XID = Finding("xid", Severity.DRAIN, "gpu1", "Xid 79 fell off", gpu=1, sequence=70)
HUNG = Finding("probe-hung", Severity.UNKNOWN, "nvml", "no answer in its time")


SUPPLY = Finding("power-supply", Severity.DRAIN, "PS1 Status", "failure detected")


def drained(reason: str) -> Standing:
    return Standing(drained=True, reason=reason, neighbours=4, ours=("n1",))


FREE = Standing(drained=False, neighbours=4)
OURS_REMAP = drained(f"{OURS}row-remap-failed gpu3: needs replacing {THIS}")
OURS_DISK = drained(f"{OURS}disk-full /tmp: 99 % of space used {THIS}")
OURS_XID = drained(f"{OURS}xid gpu1: Xid 79 fell off {THIS}")
OURS_XID_EARLIER = drained(f"{OURS}xid gpu1: Xid 79 fell off {EARLIER}")
OURS_STRIKES = drained(f"{OURS}strikes node: 3 in a day")
OURS_PENDING = drained(f"{OURS}row-remap-pending gpu3: reset {THIS}")
OURS_FORMER = drained(f"{OURS}row-remap-is-pending gpu3: reset {THIS}")
OURS_MISSING = drained(f"{OURS}gpu-missing node: 0 of 1 GPUs; reboot {EARLIER}")
OURS_DRIVER = drained(f"{OURS}driver-not-loaded node: 1 GPUs expected {EARLIER}")
OURS_SUPPLY = drained(reason_of(SUPPLY, BOOT))
ADMIN = drained("swap DIMM 4, ask Ann")
NAMELESS = drained("")
NOT_RESPONDING = replace(FREE, reason="Not responding")

CARD = Thing("gpu3", "GPU-3", "0000:3b:00.0")
STRIKE = Strike("row-remap-pending", CARD, at=0.0)

OBSERVE = NodeSettings(mode="observe")
CLEAN_TWICE = History(BOOT, clean=2, drained_at=70)


def situation(**changes: object) -> Situation:
    usual = Situation("n1", "health", (), FREE, History(BOOT), things={"gpu3": CARD})
    return replace(usual, **changes)


@pytest.mark.parametrize(
    ("now", "decided"),
    [
        pytest.param({"findings": (REMAP_FAILED,)}, "Drain", id="unfit"),
        pytest.param({"findings": (REMAP_PENDING,)}, "Drain", id="what-runs-may-end"),
        pytest.param({"findings": (HUNG,)}, "Keep fit", id="a-hung-probe-never-drains"),
        pytest.param({"findings": ()}, "Keep fit", id="fit"),
        pytest.param(
            {"findings": (REMAP_FAILED,), "settings": OBSERVE},
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
            {
                "findings": (replace(XID, heals="reboot"),),
                "standing": drained(f"{OURS}xid gpu1: Xid 119 a time-out; reset {THIS}"),
            },
            "Drain",
            id="it-takes-more-by-now",
        ),
        pytest.param(
            {
                "findings": (replace(XID, heals="reset"),),
                "standing": drained(f"{OURS}xid gpu1: Xid 79 fell off; reboot {THIS}"),
            },
            "Keep drained for it",
            id="it-takes-no-less",
        ),
        pytest.param(
            {"findings": (SUPPLY,), "standing": OURS_SUPPLY},
            "Keep drained for it",
            id="the-same-with-spaces-in-its-name",
        ),
        pytest.param(
            {
                "standing": OURS_SUPPLY,
                "history": CLEAN_TWICE,
                "findings": (replace(SUPPLY, severity=Severity.UNKNOWN),),
            },
            "Keep not everything",
            id="not-seen-with-spaces-in-its-name",
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
            {"standing": OURS_DISK, "history": CLEAN_TWICE, "settings": OBSERVE},
            "Keep observing only: would be given back",
            id="observe-gives-nothing-back",
        ),
        pytest.param(
            {"standing": OURS_XID, "history": CLEAN_TWICE},
            "Keep neither the node, its driver nor the GPU",
            id="a-kernel-message-may-just-be-gone",
        ),
        pytest.param(
            {"standing": OURS_XID, "history": CLEAN_TWICE, "restarted": True},
            "Resume",
            id="after-a-driver-reload",
        ),
        pytest.param(
            {"standing": OURS_XID_EARLIER, "history": CLEAN_TWICE},
            "Resume",
            id="after-a-reboot",
        ),
        pytest.param(
            {"standing": OURS_MISSING, "history": CLEAN_TWICE, "sees_gpu": False},
            "Keep no GPU is seen yet",
            id="a-gpu-was-handed-out",
        ),
        pytest.param(
            {"standing": OURS_DRIVER, "history": CLEAN_TWICE, "sees_gpu": False},
            "Keep no GPU is seen yet",
            id="no-driver",
        ),
        pytest.param(
            {"standing": OURS_MISSING, "history": CLEAN_TWICE}, "Resume", id="a-gpu-is-back"
        ),
        pytest.param(
            {"standing": OURS_DISK, "history": CLEAN_TWICE, "sees_gpu": False},
            "Resume",
            id="a-node-without-gpus",
        ),
        pytest.param(
            {"standing": OURS_STRIKES, "history": CLEAN_TWICE},
            "Keep drained for what no check here",
            id="the-controller-drained-it",
        ),
        pytest.param(
            {"standing": ADMIN, "history": CLEAN_TWICE}, "Keep somebody else", id="admin-fit"
        ),
        pytest.param(
            {"standing": OURS_REMAP, "history": CLEAN_TWICE},
            "Keep it needs a repair: only a person",
            id="what-needs-hands-waits-for-them",
        ),
        pytest.param(
            {"standing": OURS_FORMER, "history": CLEAN_TWICE},
            "Keep drained for what no check here",
            id="a-check-of-another-version",
        ),
        pytest.param(
            {"standing": OURS_PENDING, "history": CLEAN_TWICE, "blind": frozenset({"nvml"})},
            "Keep not everything",
            id="clean-is-what-was-read",
        ),
        pytest.param(
            {
                "standing": OURS_PENDING,
                "history": CLEAN_TWICE,
                "findings": (replace(HUNG, subject="ipmi"),),
                "blind": frozenset({"ipmi"}),
            },
            "Resume",
            id="a-sensor-that-is-never-read-holds-no-node",
        ),
        pytest.param(
            {
                "standing": drained(f"{OURS}memory-uncorrected node: 3 {EARLIER}"),
                "history": CLEAN_TWICE,
                "findings": (replace(HUNG, subject="memory"),),
            },
            "Keep not everything",
            id="what-found-it-has-to-look-again",
        ),
        pytest.param(
            {
                "standing": OURS_PENDING,
                "history": CLEAN_TWICE,
                "findings": (Finding("unread", Severity.UNKNOWN, "gpu3", "ecc: ERR!", gpu=3),),
            },
            "Keep not everything",
            id="a-gpu-that-tells-half",
        ),
        pytest.param(
            {"standing": OURS_PENDING, "history": CLEAN_TWICE, "strikes": (STRIKE,) * 2},
            "Resume",
            id="twice-and-reset",
        ),
        pytest.param(
            {"standing": OURS_PENDING, "history": CLEAN_TWICE, "strikes": (STRIKE,) * 3},
            "Keep drained for it 3 times: only a person",
            id="the-third-time-is-a-loop",
        ),
        pytest.param(
            {
                "standing": OURS_DISK,
                "history": CLEAN_TWICE,
                "strikes": (Strike("disk-full", Thing("/tmp"), at=0.0),) * 3,
            },
            "Resume",
            id="what-heals-by-itself-makes-no-loop",
        ),
        pytest.param(
            {
                "standing": drained(f"{OURS}xid gpu1: Xid 64 row; repair {EARLIER}"),
                "history": CLEAN_TWICE,
            },
            "Keep it needs a repair: only a person",
            id="an-xid-that-no-reset-mends",
        ),
        pytest.param(
            {
                "standing": OURS_PENDING,
                "history": CLEAN_TWICE,
                "strikes": (STRIKE,) * 3,
                "things": {"gpu3": replace(CARD, uuid="GPU-new")},
            },
            "Resume",
            id="a-new-card-starts-anew",
        ),
        pytest.param(
            {"findings": (REMAP_FAILED,), "standing": replace(FREE, ours=("n2", "n3"))},
            "Keep UNFIT, AND STILL IN USE: 2 of the 4 nodes",
            id="half-of-them-are-drained",
        ),
        pytest.param(
            {
                "findings": (REMAP_FAILED,),
                "standing": replace(OURS_REMAP, ours=("n2", "n3", "n1")),
            },
            "Keep UNFIT, AND STILL IN USE: 2 of the 4 nodes",
            id="another-hook-takes-it-back",
        ),
        pytest.param(
            {"findings": (REMAP_FAILED,), "standing": replace(FREE, ours=("n2",))},
            "Drain",
            id="a-quarter-of-them-is-drained",
        ),
        pytest.param(
            {
                "findings": (REMAP_FAILED,),
                "standing": replace(FREE, ours=("n2", "n3")),
                "settings": NodeSettings(drains=Drains(most_percent=100)),
            },
            "Drain",
            id="no-limit",
        ),
        pytest.param(
            {"findings": (REMAP_FAILED,), "standing": replace(FREE, neighbours=1)},
            "Drain",
            id="one-node-of-one-at-least",
        ),
        pytest.param(
            {
                "findings": (REMAP_FAILED,),
                "standing": replace(OURS_DISK, ours=("n1", "n2", "n3")),
            },
            "Drain",
            id="a-new-reason-is-no-new-drain",
        ),
        pytest.param(
            {"findings": (REMAP_FAILED,), "standing": replace(FREE, restarting=True)},
            "Keep Slurm is restarting it",
            id="on-its-way-down",
        ),
        pytest.param(
            {"standing": replace(OURS_DISK, restarting=True), "history": CLEAN_TWICE},
            "Keep Slurm is restarting it",
            id="not-lifted-on-its-way-down",
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
standings = st.none() | st.builds(Standing, st.booleans(), reasons, st.booleans())
histories = st.builds(History, st.just(BOOT), clean=st.integers(0, 9))
situations = st.builds(
    Situation,
    st.just("n1"),
    st.sampled_from(["prolog", "epilog", "health"]),
    findings,
    standings,
    histories,
    settings=st.builds(
        NodeSettings,
        mode=st.sampled_from(["enforce", "observe"]),
        resume_after=st.integers(1, 4),
    ),
    restarted=st.booleans(),
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
    [
        "",
        "NHC: ",
        (
            "NHC: Health check failed:  check_pantheon:  PANTHEON FAULT: GPU 0 FAULT (march_test"
            " failed: memory errors detected or the workload aborted)"
        ),
        "NHC: Watchdog timer unable to terminate hung NHC process 16263.",
        "Kill task failed",
        "Prolog error",
        "Prolog error: 571 xid 13 errors",
        "gres/gpu count reported lower than configured (0 < 1)",
        "ADMIN SHUTDOWN",
        "Reboot ASAP",
        "Not responding",
        "slurm-resilience",
        "slurm-resilience is to be updated here",
        "Slurm: x y: z",
    ],
)
def test_a_foreign_reason_is_nobody_of_ours(text: str) -> None:
    """Only the whole prefix makes a reason ours."""
    assert parse_reason(text) is None


# ── memory ──────────────────────────────────────────────────────────────────────────────────


def test_what_an_administrator_lifted_is_settled() -> None:
    """Who resumed the node by hand does not want it drained again for the same Xid."""
    history = settle(History(BOOT, drained_at=70), BOOT, FREE)

    assert unsettled((XID,), history) == ()
    assert unsettled((replace(XID, sequence=71),), history) != ()


@pytest.mark.parametrize("standing", [None, OURS_XID], ids=["silent", "stands"])
def test_a_standing_drain_is_not_settled(standing: Standing | None) -> None:
    """Only a drain that is seen to be gone was lifted."""
    history = settle(History(BOOT, drained_at=70), BOOT, standing)

    assert unsettled((XID,), history) == (XID,)


def test_two_hooks_at_once_forget_nothing() -> None:
    """One that found the drain written already must not wipe out that it stands."""
    drained = History(BOOT, drained_at=70, written_at=70, struck=("xid gpu1",))

    assert joined(History(BOOT), drained) == joined(drained, History(BOOT)) == drained
    assert joined(History(BOOT, settled=80), drained).settled == 80


def test_a_boot_begins_anew() -> None:
    """Kernel record numbers start again with each boot, and so does what was settled."""
    assert settle(History("other", clean=2, settled=99), BOOT, FREE) == History(BOOT)


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


NOTHING_MORE = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"


@pytest.mark.parametrize(
    ("event", "restarted"),
    [
        (KernelEvent("driver-loaded", "NVRM: loading", sequence=80), True),
        (KernelEvent("driver-loaded", "NVRM: loading", sequence=70), False),
        (KernelEvent("gpu-reset", "reset", uuid="GPU-3", sequence=80), True),
        (KernelEvent("gpu-reset", "reset", uuid="GPU-4", sequence=80), False),
        (KernelEvent("gpu-reset", "reset", pci="0000:3b:00.0", sequence=80), True),
        (KernelEvent("xid", NOTHING_MORE, pci="0000:3b:00.0", code=154, sequence=80), True),
        (KernelEvent("xid", NOTHING_MORE, pci="0000:4b:00.0", code=154, sequence=80), False),
    ],
    ids=[
        "reload",
        "reload-before",
        "reset",
        "another-gpus-reset",
        "reset-by-address",
        "the-driver-says-so",
        "of-another-gpu",
    ],
)
def test_what_counts_as_a_restart(event: KernelEvent, *, restarted: bool) -> None:
    """A reload of the driver mends every GPU, a reset the one that it names."""
    assert is_restarted([event], CARD, after=70) is restarted


def test_a_reload_is_remembered_through_all_clean_passes() -> None:
    """Three passes look at it, not only the first one after it."""
    loaded = KernelEvent("driver-loaded", "NVRM: loading", sequence=80)
    history = remember(
        situation(findings=(XID,)), decide_node(situation(findings=(XID,))), newest=70
    )
    decisions: list[Decision] = []
    for _ in range(3):
        again = is_restarted([loaded], CARD, after=history.written_at)
        now = situation(standing=OURS_XID, history=history, restarted=again)
        decisions.append(decide_node(now))
        history = remember(now, decisions[-1], newest=80)

    assert [type(one).__name__ for one in decisions] == ["Keep", "Keep", "Resume"]


# ── a fault that comes back ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("finding", "strikes", "advised"),
    [
        (REMAP_PENDING, (), "; reset"),
        (REMAP_PENDING, (STRIKE,), "; 2nd time in 30 days, reboot"),
        (REMAP_PENDING, (STRIKE,) * 2, "; 3rd time in 30 days, replace"),
        (REMAP_PENDING, (STRIKE,) * 11, "; 12th time in 30 days, replace"),
        (REMAP_PENDING, (replace(STRIKE, check="xid"),), "; reset"),
        (REMAP_PENDING, (replace(STRIKE, thing=replace(CARD, uuid="GPU-old")),), "; reset"),
        (REMAP_PENDING, (replace(STRIKE, thing=replace(CARD, uuid="")),), "; 2nd time in 30 days, reboot"),
        (REMAP_FAILED, (replace(STRIKE, check="row-remap-failed"),), "; repair"),
        (Finding("disk-full", Severity.DRAIN, "/tmp", "99 %"), (), ""),
        (Finding("disk-full", Severity.DRAIN, "/tmp", "99 %"), (Strike("disk-full", Thing("/tmp"), 0.0),) * 2, ""),
        (XID, (), "; reset"),
        (replace(XID, heals="reboot"), (), "; reboot"),
        (replace(XID, heals="repair"), (Strike("xid", Thing("gpu1"), 0.0),), "; repair"),
    ],
    ids=["first", "second", "third", "later", "another-check", "another-card", "same-slot-no-uuid",
         "repair-stays", "heals-itself", "heals-itself-again", "as-its-check", "as-the-finding", "as-the-finding-again"],
)  # fmt: skip
def test_what_helps_less_each_time_is_not_advised_again(
    finding: Finding, strikes: tuple[Strike, ...], advised: str
) -> None:
    """Reset, then reboot, then a new part: it stands at the end of the reason, where `sinfo -R` shows it."""
    decision = decide_node(situation(findings=(finding,), strikes=strikes))

    assert isinstance(decision, Drain)
    assert decision.reason.endswith(f"{finding.detail}{advised} {THIS}")
    known = parse_reason(decision.reason)
    assert known
    assert (known.detail, known.advice) == (finding.detail, advised.removeprefix("; "))


def test_a_drain_is_one_strike_while_it_stands() -> None:
    """Two causes that take turns as the worst do not make a loop of one night."""
    history = History(BOOT)
    strikes: list[Strike] = []
    for finding in (REMAP_PENDING, XID, REMAP_PENDING):
        now = situation(findings=(finding,), history=history, strikes=tuple(strikes))
        decision = decide_node(now)
        strikes += filter(None, [strike_of(now, decision, at=1.0)])
        history = remember(now, decision, newest=70)

    assert [strike.check for strike in strikes] == ["row-remap-pending", "xid"]
    assert strikes[0].thing == CARD


def test_what_heals_by_itself_is_no_strike() -> None:
    """A disk that users fill each week is not to be replaced."""
    now = situation(findings=(Finding("disk-full", Severity.DRAIN, "/tmp", "99 %"),))

    assert strike_of(now, decide_node(now), at=1.0) is None


# ── several at once, and the first minutes ──────────────────────────────────────────────────


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=9), st.integers(1, 100), st.integers(0, 9)
)
def test_all_agree_who_goes_back(seconds: list[int], percent: int, more: int) -> None:
    """However many drain at once, what is left is the budget, and who was first stays."""
    nodes = [f"n{number}" for number in range(len(seconds))]
    ours = tuple(sorted(nodes, key=lambda node: (seconds[nodes.index(node)], node)))
    standing = Standing(drained=True, neighbours=len(nodes) + more, ours=ours)
    drains = Drains(most_percent=percent)

    left = [node for node in ours if not is_over(node, standing, drains)]

    most = max(1, standing.neighbours * percent // 100)
    assert tuple(left) == ours[: most if percent < 100 else None]


LINK = Finding("link-down", Severity.DRAIN, "mlx5_0:1", "Polling")


@pytest.mark.parametrize(
    ("finding", "up_s", "severity"),
    [
        (LINK, 30, Severity.UNKNOWN),
        (LINK, 120, Severity.DRAIN),
        (replace(LINK, severity=Severity.WARN), 30, Severity.WARN),
        (REMAP_PENDING, 30, Severity.DRAIN_WHEN_IDLE),
        (Finding("driver-not-loaded", Severity.DRAIN, "node", "8 GPUs"), 10, Severity.UNKNOWN),
        (Finding("gpu-missing", Severity.DRAIN, "node", "7 of 8"), 10, Severity.UNKNOWN),
        (Finding("nvlink-down", Severity.DRAIN_WHEN_IDLE, "gpu3", "0 of 18"), 10, Severity.UNKNOWN),
        (Finding("service-down", Severity.DRAIN_WHEN_IDLE, "sssd", "inactive"), 10, Severity.UNKNOWN),
        (Finding("disk-full", Severity.DRAIN, "/tmp", "99 %"), 10, Severity.DRAIN),
    ],
    ids=["may-still-come", "should-be-there", "a-warning-stays", "no-waiting-mends-it", "driver",
         "gpus", "nvlinks", "a-service", "full-is-full"],
)  # fmt: skip
def test_the_first_minutes_after_boot(
    finding: Finding, up_s: float, severity: Severity
) -> None:
    """Links and mounts come up after slurmd does; a GPU's memory gets no better by waiting."""
    (found,) = after_boot((finding,), up_s=up_s, grace_s=120)

    assert found.severity is severity


# ── action ──────────────────────────────────────────────────────────────────────────────────


def slurm_with(*, reason: str = "", drained: bool = False) -> FakeSlurm:
    flags = frozenset({"DRAIN"}) if drained else frozenset()
    return FakeSlurm([], [Node("n1", "IDLE", flags, reason)])


def test_a_drain_is_written_once() -> None:
    """An action may be repeated, and then changes nothing."""
    slurm = slurm_with()
    drain = Drain("n1", reason_of(REMAP_FAILED, BOOT), "row-remap-failed", "gpu3")

    changed = [apply(drain, slurm), apply(drain, slurm)]

    assert changed == [True, False]
    assert (look(slurm, "n1").drained, look(slurm, "n1").reason) == (True, drain.reason)


def test_an_action_looks_again() -> None:
    """An administrator who came in between keeps the node, reason and all."""
    slurm = slurm_with(reason=ADMIN.reason, drained=True)

    assert not apply(
        Drain("n1", reason_of(REMAP_FAILED, BOOT), "row-remap-failed", "gpu3"), slurm
    )
    assert not apply(Resume("n1", OURS_DISK.reason), slurm)
    assert (look(slurm, "n1").drained, look(slurm, "n1").reason) == (True, ADMIN.reason)


def test_only_the_drain_that_was_decided_about_is_lifted() -> None:
    """A drain of ours for something else stands."""
    slurm = slurm_with(reason=OURS_REMAP.reason, drained=True)

    assert not apply(Resume("n1", OURS_DISK.reason), slurm)
    assert apply(Resume("n1", OURS_REMAP.reason), slurm)
    assert not look(slurm, "n1").drained


def test_an_unknown_node_is_an_error() -> None:
    """A node that Slurm does not list has no standing, least of all a good one."""
    with pytest.raises(SlurmError, match="n9"):
        look(slurm_with(), "n9")
