"""
A campaign of kills: `python -m benchmarks.kills --seed 1 --kills 500 [--directory DIR]`.

A training saves at each step, alone or as two ranks. At a random instant one rank, or all of them,
get SIGKILL; then a new one restores. The restored state has to be whole, and of the step that the
dead one knew to be saved or of a later one. One JSON line at the end; exit status 1 where a restore
was wrong or refused. Uses the ranks of the tests, from the checkout.
"""

import argparse
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from slurm_resilience.checkpoint_files.listing import found, problems
from slurm_resilience.errors import CheckpointError, UntrustedFileError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.watch.heartbeat import beat_path, read_beat
from tests.training.jobs import Level, save_for_ever
from tests.training.ranks import Ranks, wait_for

LONGEST_S = 0.2
"""After a save that is known: longer than the next save takes."""
APART_S = 0.02


class Kill(NamedTuple):
    """One kill."""

    ranks: int
    victims: tuple[int, ...]
    """The order in which they die."""
    after_s: float
    apart_s: float

    @property
    def kind(self) -> str:
        """For the count."""
        if self.ranks == 1:
            return "the only rank"
        return "all ranks at once" if self.apart_s == 0 else "one rank, then the other"


def main() -> None:
    """Print the outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp"), help="to write in")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        outcome = campaign(Path(folder), seed=arguments.seed, kills=arguments.kills)
    print(json.dumps({"bench": "kills", "seed": arguments.seed, **outcome}))
    sys.exit(outcome["right"] != arguments.kills)


def campaign(folder: Path, *, seed: int, kills: int) -> dict[str, object]:
    """Kill and restore so often; the counts."""
    directory, beats = folder / "checkpoints", folder / "beats"
    kinds: Counter[str] = Counter()
    left: Counter[str] = Counter()
    wrong: list[str] = []
    known, began = -1, time.monotonic()
    for number, kill in enumerate(drawn(random.Random(seed), kills)):
        known = max(known, carried_out(kill, directory, beats, known))
        kinds[kill.kind] += 1
        left.update(leftovers(directory))
        if why := wrongness(directory, known):
            wrong.append(f"kill {number} ({kill.kind}): {why}")
    return {
        "kills": kills,
        "right": kills - len(wrong),
        "wrong": wrong[:10],
        "kinds": dict(kinds),
        "cut_off": dict(left),
        "steps_saved": known + 1,
        "took_s": round(time.monotonic() - began, 1),
    }


def drawn(chance: random.Random, kills: int) -> list[Kill]:
    """The kills of a seed."""
    plans = []
    for _ in range(kills):
        ranks = chance.choice([1, 1, 2])
        victims = chance.sample(range(ranks), ranks)
        apart_s = chance.choice([0.0, chance.uniform(0.0, APART_S)]) if ranks > 1 else 0.0
        plans.append(Kill(ranks, tuple(victims), chance.uniform(0.0, LONGEST_S), apart_s))
    return plans


def carried_out(kill: Kill, directory: Path, beats: Path, known: int) -> int:
    """Train, kill; the newest step that a victim knew to be saved."""
    with Ranks(save_for_ever, directory, world_size=kill.ranks, folder=beats) as ranks:
        wait_for(lambda: saved_step(beats, kill.ranks - 1) > known, within_s=60)
        time.sleep(kill.after_s)
        for victim in kill.victims:
            ranks.processes[victim].kill()
            time.sleep(kill.apart_s)
    steps = [saved_step(beats, rank) for rank in range(kill.ranks)]
    for rank in range(kill.ranks):
        beat_path(beats, rank).unlink(missing_ok=True)
    return max(steps)


def leftovers(directory: Path) -> list[str]:
    """What the kill has cut off."""
    kinds = []
    for path in directory.glob(".*-*"):
        if path.name.startswith(".removing-"):
            kinds.append("while an old one was deleted")
        elif (path / "manifest.json").exists():
            kinds.append("a save, with its manifest")
        elif path.name.startswith(".saving-"):
            kinds.append("a save, before its manifest")
    return kinds


def wrongness(directory: Path, known: int) -> str:
    """What is wrong with what a new attempt finds; empty: nothing."""
    for entry in found(directory):
        if problem := next(problems(entry), ""):
            return f"{entry.path.name} has its name and is none: {problem}"
    model = Level()
    run = Run(checkpoints=Checkpoints(directory, keep=2), state={"model": model})
    try:
        start = run.restore()
    except CheckpointError as error:
        return f"refused: {error}"
    finally:
        run.close()
    if start - 1 < known:
        return f"step {known} was saved, and step {start - 1} is restored"
    if model.level() != start - 1:
        return f"half of a state: {model.level()} at step {start - 1}"
    return "" if not list(directory.glob(".saving-*")) else "an unfinished save was left"


def saved_step(beats: Path, rank: int) -> int:
    """The step that a rank knew to be saved; -1 while it says nothing."""
    try:
        return read_beat(beat_path(beats, rank)).saved_step
    except UntrustedFileError:
        return -1


if __name__ == "__main__":
    main()
