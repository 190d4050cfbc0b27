"""A poisoned state: marked when it is saved, never in the way of the last good one."""

from pathlib import Path

import pytest

from slurm_resilience.checkpoint_files.keep import superfluous
from slurm_resilience.checkpoint_files.listing import Found
from slurm_resilience.checkpoint_files.manifest import Manifest


def entry(step: int, poison: str = "") -> Found:
    """A whole checkpoint."""
    manifest = Manifest(
        format=1, step=step, world_size=1, saved_at=0.0, took_s=0.0, job="", files={},
        poison=poison,
    )  # fmt: skip
    return Found(Path(f"step-{step}"), manifest)


@pytest.mark.parametrize(
    ("poisoned", "go"),
    [((), [1, 2, 3]), ((5,), [1, 2, 3]), ((4, 5), [1, 2]), ((3, 4, 5), [1, 3]),
     ((1, 2, 3, 4, 5), [1, 2, 3])],
    ids=["none", "the newest", "all that would stay", "one more", "all"],
)  # fmt: skip
def test_the_last_good_checkpoint_stays_when_newer_ones_are_poisoned(
    poisoned: tuple[int, ...], go: list[int]
) -> None:
    """Of five, two are kept; the newest without poison stays beside them where it has to."""
    entries = [entry(step, "a NaN" if step in poisoned else "") for step in range(1, 6)]

    going = superfluous(entries, keep=2, unsound=())

    assert [path.name for path in going] == [f"step-{step}" for step in go]
