"""The campaign of kills in its short form; the long one is `python -m benchmarks.kills`."""

import random
from pathlib import Path

from benchmarks.kills import campaign, drawn


def test_each_of_some_kills_leaves_what_restores_right(tmp_path: Path) -> None:
    """The only rank, one of two, all of them, at random instants."""
    outcome = campaign(tmp_path, seed=7, kills=16)

    assert outcome["wrong"] == []
    assert outcome["right"] == 16
    assert outcome["cut_off"], "no kill fell into a save: they tell nothing"


def test_a_seed_names_a_campaign() -> None:
    """A kill that found a fault can be told to somebody else."""

    assert drawn(random.Random(3), 50) == drawn(random.Random(3), 50)
    assert len({kill.kind for kill in drawn(random.Random(3), 50)}) == 3
