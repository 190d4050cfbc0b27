"""When a save is due: steps or clock, whichever is first, and before the time is up."""

import re
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.lead import END_VARIABLE, needed_s
from slurm_resilience.training import Checkpoints, Run, saver
from slurm_resilience.training.due import FIRST_SAVE_S, Due, Schedule, time_limit
from tests.training import jobs
from tests.training.ranks import on_ranks
from tests.training.seen import steps_saved


@pytest.mark.parametrize(
    ("step", "last", "due"),
    [(498, -1, False), (499, -1, True), (998, 499, False), (999, 499, True), (1200, 700, True)],
)
def test_steps_count_from_the_last_save(step: int, last: int, *, due: bool) -> None:
    """The first save is after 500 steps; one by the clock in between moves the next."""
    schedule = Schedule(Due(500, 1800.0), now=0.0, ends_at=None)
    schedule.begun(last, 0.0)

    assert schedule.is_due(step) is due


def test_the_clock_counts_from_the_last_save() -> None:
    """Half an hour after the last save began, not before."""
    schedule = Schedule(Due(500, 1800.0), now=0.0, ends_at=None)
    schedule.begun(0, 1000.0)

    assert not schedule.asks(2799.0, save_s=1.0)
    assert schedule.asks(2800.0, save_s=1.0)


def test_either_may_be_left_out() -> None:
    """None means: not by that."""
    assert not Schedule(Due(None, 1.0), now=0.0, ends_at=None).is_due(10**9)
    assert not Schedule(Due(1, None), now=0.0, ends_at=None).asks(1e9, save_s=1.0)


@pytest.mark.parametrize(
    ("now", "late"),
    [(939.0, False), (940.0, True), (999.0, True), (1000.0, False), (2000.0, False)],
    ids=["time enough", "just enough", "little", "over", "long over: not this job's"],
)
def test_it_is_late_when_no_more_is_left_than_a_save_needs(now: float, *, late: bool) -> None:
    """Sixty seconds before the end where a save may need sixty."""
    schedule = Schedule(Due(1, None), now=0.0, ends_at=1000.0)
    schedule.slept(now)

    assert schedule.asks(now, save_s=30.0) is late


def test_a_save_is_given_twice_its_time_and_two_steps() -> None:
    """The measured need."""
    assert needed_s(save_s=20.0, step_s=3.0) == 46.0


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1764572400", 1764572400.0),
        ("", None),
        ("Unknown", None),
        ("9" * 40, None),
        ("-5", None),
    ],
)
def test_the_time_limit_is_what_slurm_says(text: str, at: float | None) -> None:
    """Or not known."""
    assert time_limit({END_VARIABLE: text}) == at


def asked_at(schedule: Schedule, at: Iterable[float], save_s: float) -> list[float]:
    """When it asks, where each save that it asks for is begun."""
    asked = []
    for now in at:
        if schedule.asks(now, save_s):
            asked.append(now)
            schedule.begun(int(now), now)
    return asked


def test_the_last_call_comes_once_and_by_what_saves_took() -> None:
    """The slowest save and the slowest step since count; until one was measured, a guess."""
    never = Due(None, 1e9)
    measured = Schedule(never, now=0.0, ends_at=1000.0)
    guessed = Schedule(never, now=0.0, ends_at=1000.0)
    step_s = 10.0
    at = [float(second) for second in range(10, 1010, 10)]

    asked = asked_at(measured, at, save_s=50.0)
    asked_unmeasured = asked_at(guessed, at, save_s=0.0)

    assert asked == [1000.0 - 2 * 50.0 - 2 * step_s]
    assert asked_unmeasured == [1000.0 - 2 * FIRST_SAVE_S - 2 * step_s]


def test_a_last_call_that_came_too_early_comes_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One evaluation of 150 s among steps of 1 s: saved early for it, and again near the end."""
    schedule = Schedule(Due(None, 1e9), now=0.0, ends_at=1000.0)
    asked = []
    for now in [*range(1, 600), *range(750, 1000)]:
        if schedule.asks(float(now), save_s=10.0):
            asked.append(now)
            schedule.begun(now, float(now))

    assert asked == [750, 1000 - 2 * 10 - 2 * 1]
    assert len(caplog.records) == 2


def test_a_last_call_that_was_skipped_comes_again_until_a_save_is_begun(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With if_busy="skip" a save under way at that time is not the end of it; it is said once."""
    schedule = Schedule(Due(None, 1e9), now=0.0, ends_at=1000.0)
    skipped = [now for now in range(900, 960) if schedule.asks(float(now), save_s=40.0)]
    assert not caplog.records

    schedule.begun(960, 960.0)

    assert skipped[-1] == 959
    assert not any(schedule.asks(float(now), save_s=40.0) for now in range(960, 1000))
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "the time limit is 40 s away"
    ]


def test_a_save_before_the_time_limit_needs_no_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Saved once, early, and said; training goes on until somebody ends it."""
    monkeypatch.setenv(END_VARIABLE, str(int(time.time()) + 20))
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"n": 1})
    for step in range(run.restore(), 4):
        assert not run.step(step)
    run.finish(save=False)

    assert steps_saved(tmp_path / "c") == [0]
    assert re.search(r"s away, a save may need \d+ s: saving now", caplog.text)


def test_all_ranks_save_before_the_time_limit_at_the_same_step(tmp_path: Path) -> None:
    """Rank 0's clock decides, although the others look at it a little later."""
    on_ranks(jobs.near_the_end, tmp_path / "c", world_size=2, folder=tmp_path / "b")

    manifests = [entry.manifest for entry in found(tmp_path / "c") if entry.manifest]
    assert [(manifest.step, manifest.world_size) for manifest in manifests] == [(1, 2)]


def test_no_step_is_saved_twice(tmp_path: Path) -> None:
    """A step that is due, told to stop at, and the last, is written once."""
    run = Run(checkpoints=Checkpoints(tmp_path / "c", every_steps=1), state={"n": 1})
    run.restore()
    run.step(0)
    run.finish()
    written = (tmp_path / "c" / "step-000000000").stat().st_ino
    again = Run(checkpoints=Checkpoints(tmp_path / "c", every_steps=1), state={"n": 1})
    again.restore()
    again.finish()

    assert (tmp_path / "c" / "step-000000000").stat().st_ino == written
    assert not (tmp_path / "c" / "quarantine").exists()


def large() -> dict[str, object]:
    """A state that takes longer to write than some steps take."""
    return {"x": torch.zeros(40_000_000)}


@pytest.mark.parametrize("is_long", [True, False], ids=["long", "short"])
def test_a_save_that_is_not_done_is_waited_for(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_long: bool,  # noqa: FBT001 - a row of the table
) -> None:
    """By default what is due is saved, whatever it costs; a wait that anybody would notice is said."""
    monkeypatch.setattr(saver, "SHORT_S", 0.0 if is_long else 60.0)
    run = Run(checkpoints=Checkpoints(tmp_path / "c", every_steps=1), state=large())
    run.restore()
    run.step(0)
    run.step(1)
    run.finish()

    assert steps_saved(tmp_path / "c") == [0, 1]
    assert ("the save of step 0 is not done at step 1: waiting" in caplog.text) == is_long
    assert ("s for it" in caplog.text) == is_long


def test_a_training_that_would_rather_go_on_skips_a_save(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It saves at the first step at which the last save is done, says so once, and at the end."""
    checkpoints = Checkpoints(tmp_path / "c", every_steps=1, keep=100, if_busy="skip")
    run = Run(checkpoints=checkpoints, state=large())
    run.restore()
    step = 0
    while len(steps_saved(tmp_path / "c")) < 2:
        assert step < 1_000_000, "no second save"
        run.step(step)
        step += 1
    run.finish()

    saved = steps_saved(tmp_path / "c")
    assert saved[0] == 0
    assert saved[-1] == step - 1
    assert saved[1] > 1, "not skipped"
    assert "step 1 is due, but the save of step 0 is not done: skipped" in caplog.text


def test_all_ranks_skip_the_same_saves(tmp_path: Path) -> None:
    """One that has written its part does not begin while another has not."""
    saved = on_ranks(jobs.skipping, tmp_path / "c", world_size=2, folder=tmp_path / "b")

    assert saved[0] == saved[1]
    entries = [entry.manifest for entry in found(tmp_path / "c") if entry.manifest]
    assert len(entries) >= 3
    assert all(manifest.world_size == 2 for manifest in entries)
