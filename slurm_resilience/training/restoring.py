"""Filling a state from a checkpoint that was found sound."""

import logging
import os
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import torch

from slurm_resilience.checkpoint_files.instead import instead
from slurm_resilience.checkpoint_files.listing import Found, look, problems
from slurm_resilience.errors import CheckpointLoadError
from slurm_resilience.plain import plain
from slurm_resilience.training import rng
from slurm_resilience.training.environment import Environment, differences
from slurm_resilience.training.environment_probe import environment, leave
from slurm_resilience.training.peers import Peers
from slurm_resilience.training.reader import Reader
from slurm_resilience.training.sound import refuse_overflow
from slurm_resilience.training.state import UNFIT, State, Values, bare, captured, live_tensors
from slurm_resilience.training.targets import conversion, made_for
from slurm_resilience.training.tree import decoded, dtype

log = logging.getLogger(__name__)

OF_SCHEDULERS = {
    "params", "param_names",
    "initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum", "swa_lr",
}  # fmt: skip
"""What torch and its schedulers add to an optimizer's groups."""


def fill(state: State, newest: Found | None, peers: Peers) -> Environment | None:
    """
    Fill *state* from *newest*, where there is one, and see that it can be saved.

    What this training runs in, on rank 0; None on the others. Every rank has to come here. Raises
    `CheckpointLoadError` where the checkpoint does not fit, `UsageError` where a save would fail.
    """
    here: Environment | None = None
    generators: rng.State | None = None

    def put() -> None:
        nonlocal here, generators
        if peers.rank == 0:
            here = environment()
            leave(here, os.environ)
        if newest:
            generators = _put_back(state, newest, peers, here)

    def check() -> None:
        captured(state, rank=peers.rank)
        # Last: a data loader that is asked for its state begins an iterator, and draws for it.
        if generators:
            rng.restore(generators)

    peers.each(put)
    peers.each(check)  # now, and not at the first save, which may be hours away
    return here


def _put_back(
    state: State, entry: Found, peers: Peers, here: Environment | None
) -> rng.State | None:
    """
    Part by part; says what of *here* was different then.

    How the random number generators of this rank stood, None: they begin anew.
    """
    if entry.manifest is None:
        raise CheckpointLoadError(f"{entry.path}: {entry.problem}")
    reader = Reader(entry.path, entry.manifest)
    written_by = entry.manifest.world_size
    same_world = written_by == peers.world_size
    values = reader.values(peers.rank if same_world else reader.manifest.ranks[0])
    if missing := state.keys() - values.parts.keys():
        raise CheckpointLoadError(
            f"{entry.path} holds no {min(missing)!r}; this run asks for it"
        )
    if peers.rank == 0:
        for name in sorted(values.parts.keys() - state.keys()):
            log.warning("%s holds %r, which this run does not ask for", entry.path, name)
        if not same_world:
            log.warning(
                "%s was written by %d ranks and is read by %d: samplers stand where rank 0's "
                "stood, random numbers begin anew",
                entry.path, written_by, peers.world_size,
            )  # fmt: skip
        _tell_what_differs(reader, here)
    for name in list(state):
        _put_back_part(state, name, values, reader)
    return _filled(values.rng, reader) if same_world else None


def load(checkpoint: str | os.PathLike[str], part: str) -> Any:  # noqa: ANN401 - as it was saved
    """
    One part of a checkpoint, outside any run: `model.load_state_dict(load(path, "model"))`.

    Tensors are whole and in host memory, however many ranks wrote them. What belongs to a rank
    is that of the first of its ranks. Raises `CheckpointLoadError` where the checkpoint is not sound
    or lacks the part, or some of it lies on other nodes.
    """
    entry = look(Path(checkpoint).expanduser())
    if why := next(problems(entry), ""):
        raise CheckpointLoadError(f"{entry.path}: {instead(entry.path) or why}")
    return part_of(entry, part)


def part_of(entry: Found, part: str) -> Any:  # noqa: ANN401 - as it was saved
    """As `load`, of a checkpoint that was found sound."""
    if entry.manifest is None:
        raise CheckpointLoadError(f"{entry.path}: {entry.problem}")
    reader = Reader(entry.path, entry.manifest)
    parts = reader.values(reader.manifest.ranks[0]).parts
    if part not in parts:
        raise CheckpointLoadError(
            f"{entry.path} holds no {part!r}, but {', '.join(sorted(parts))}"
        )
    return _filled(parts[part], reader)


def _tell_what_differs(reader: Reader, now: Environment | None) -> None:
    then = reader.values(0).environment
    if then and now and (changes := differences(then, now)):
        log.warning("since %s was saved: %s", reader.path.name, plain(changes))


def _put_back_part(state: State, name: str, values: Values, reader: Reader) -> None:
    part = state[name]
    try:
        live = live_tensors(part, name)
        value = _filled(values.parts[name], reader, live, made_for(part, name, reader))
        if isinstance(part, torch.nn.Module):
            bare(part).load_state_dict(value)
        elif isinstance(part, torch.optim.Optimizer):
            _refuse_another_kind(part, value["param_groups"], f"{reader.path}: {name!r}")
            part.load_state_dict(value)
        elif hasattr(part, "load_state_dict"):
            part.load_state_dict(value)
        elif isinstance(part, torch.Tensor):
            _refuse_another_shape(part, value)
            if how := conversion(name, value.dtype, part.dtype):
                log.warning("%s: %s: %s", reader.path, name, how)
            with torch.no_grad():
                part.copy_(value)
            refuse_overflow(name, value, part)
        else:
            state[name] = value
    except UNFIT as error:
        why = " ".join(str(error).split())
        raise CheckpointLoadError(f"{reader.path}: {name!r} does not fit: {why}") from error


def _refuse_another_shape(part: torch.Tensor, value: torch.Tensor) -> None:
    if value.shape != part.shape:  # torch would repeat it
        raise ValueError(f"it has the shape {list(value.shape)}, this run's {list(part.shape)}")


def _refuse_another_kind(
    part: torch.optim.Optimizer, saved: Sequence[Mapping[str, object]], what: str
) -> None:
    """
    Raise where each of two optimizers has settings that the other has not: torch loads them all the same.

    A newer torch has more of them, and a scheduler adds its own: these are on one side alone.
    """
    for group, then in zip(
        part.param_groups, saved, strict=False
    ):  # torch compares their number
        lacks = sorted(part.defaults.keys() - then.keys())
        knows_not = sorted(then.keys() - group.keys() - OF_SCHEDULERS)
        if lacks and knows_not:
            raise CheckpointLoadError(
                f"{what} is of another optimizer than this run's {type(part).__name__}: it has "
                f"{plain(knows_not[0], most=80)}, and no {lacks[0]}"
            )


def _filled(
    data: bytes,
    reader: Reader,
    live: MutableMapping[str, torch.Tensor] | None = None,
    new: Callable[[str], torch.Tensor] | None = None,
) -> Any:  # noqa: ANN401 - anything
    targets: dict[str, torch.Tensor] = {}
    converted: dict[str, str] = {}
    live = live or {}
    make = new or reader.empty

    def target(name: str) -> torch.Tensor:
        found = live.pop(name, None)
        if found is None:
            found = make(name)
        if tuple(found.shape) != reader.tensor(name).sizes:
            raise CheckpointLoadError(
                f"{reader.path}: {name} has the shape {list(reader.tensor(name).sizes)}, "
                f"this run's has {list(found.shape)}"
            )
        if how := conversion(name, dtype(reader.tensor(name).dtype), found.dtype):
            converted[how] = name
        return targets.setdefault(name, found)

    value = decoded(data, target)
    if live:
        raise CheckpointLoadError(
            f"{reader.path} holds no {next(iter(live))!r}; this run asks for it"
        )
    for how, name in converted.items():
        log.warning("%s: %s, and maybe others: %s", reader.path, name, how)
    reader.fill(targets)
    return value
