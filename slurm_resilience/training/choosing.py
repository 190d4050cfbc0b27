"""Which checkpoint to go on from: the newest that every rank finds sound."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from slurm_resilience.checkpoint_files.listing import Found, problems, step_of
from slurm_resilience.checkpoint_files.quarantine import damage, set_aside, thin_out
from slurm_resilience.errors import (
    CheckpointLoadError,
    CheckpointPlaceError,
    CheckpointVersionError,
    UsageError,
)
from slurm_resilience.plain import plain
from slurm_resilience.training.nodes import Nodes
from slurm_resilience.training.parts import Held, held
from slurm_resilience.training.peers import Peers

log = logging.getLogger(__name__)

Prefer = Literal["newest", "sound"]
PREFERENCES = get_args(Prefer)


class Wanted(NamedTuple):
    """What `Run.restore` is asked for."""

    prefer: Prefer = "newest"
    anew: bool = False
    verified: Found | None = None
    """What `first_sound` has just returned: not read for that again."""
    has_copies: bool = False
    """Whether copies elsewhere were asked for, before this."""


class Choice(NamedTuple):
    """The checkpoint to go on from, None to begin; and those here that do not count."""

    newest: Found | None
    unsound: frozenset[Path]


def choose(directory: Path, peers: Peers, nodes: Nodes, wanted: Wanted) -> Choice:
    """
    Verify from the newest on, the ranks sharing the reading, until one is sound for all; to
    prefer what is sound means: also one in which neither NaN nor infinity was seen.

    Every rank has to come here. Raises `CheckpointLoadError` where there are checkpoints and none of
    them is sound: to begin anew is then for a person to decide; and, but for *anew*,
    `CheckpointPlaceError` where of all of them some part is missing on these nodes; and
    `CheckpointVersionError` where a newer version of this package has saved there.
    """
    if wanted.prefer not in PREFERENCES:
        raise UsageError(
            f"restore: prefer is {plain(repr(wanted.prefer), most=80)}; it has to be "
            '"newest" or "sound"'
        )
    here = held(directory, peers, nodes)
    if here.newer_anywhere:
        raise CheckpointVersionError(
            f"{plain(here.newer_anywhere)} was written by a newer slurm_resilience; install that "
            "one, or move what it wrote away to go on without"
        )
    unsound = {entry.path: entry.problem for entry in here.unreadable}
    newest, skipped = first_sound(here, peers, nodes, wanted)
    unsound |= {entry.path: why for entry, why in skipped}
    after = step_of(newest) if newest else -1
    parted = {one.path: why for one, why in here.parted if step_of(one) > after}
    if nodes.leads:
        for path, why in {**unsound, **parted}.items():
            log.warning("skipped %s: %s", path, why)
    if newest is None:
        _refuse(directory, here, unsound, wanted, is_damaged=bool(skipped))
    going = [*(entry for entry, _ in skipped), *here.unreadable] if newest else []

    def tidy() -> None:
        if nodes.leads:
            _put_aside(going)
            # Not to be taken for the newest by a later attempt, nor for one of those to keep.
            for path, why in parted.items():
                _move(path, why)
            thin_out(directory)

    peers.each_at_length(tidy)  # reads what it moves, and some of what was moved before
    if newest and newest.manifest and newest.manifest.poison and peers.rank == 0:
        log.warning(
            '%s: %s; restore(prefer="sound") goes back behind it',
            newest.path, plain(newest.manifest.poison),
        )  # fmt: skip
    return Choice(newest, frozenset({**unsound, **parted}))


def first_sound(
    here: Held, peers: Peers, nodes: Nodes, wanted: Wanted
) -> tuple[Found | None, list[tuple[Found, str]]]:
    """
    The newest that counts, None: none does; and those before it, with why they do not.

    Every rank has to come here: they share the reading. Changes nothing.
    """
    skipped: list[tuple[Found, str]] = []
    for entry in here.whole:
        is_choosy = wanted.prefer == "sound"
        why = plain(entry.manifest.poison) if entry.manifest and is_choosy else ""
        if not why and wanted.verified and not peers.most(entry != wanted.verified):
            return entry, skipped
        why = why or _verified(entry, peers, nodes)
        if not why:
            return entry, skipped
        skipped.append((entry, why))
    return None, skipped


def _refuse(
    directory: Path,
    here: Held,
    unsound: Mapping[Path, str],
    wanted: Wanted,
    *,
    is_damaged: bool,
) -> None:
    """Raise where there was something; all ranks do, or none."""
    if is_damaged or here.unreadable_anywhere:
        path, why = next(iter(unsound.items()), (directory, here.unreadable_anywhere))
        raise CheckpointLoadError(
            f"none of the {len(unsound)} checkpoints in {directory} is sound ({path.name}: {why}); "
            "move them away and call restore(anew=True) to begin anew"
        )
    if here.lack and not wanted.anew:
        copies = ", and no copy is there"
        raise CheckpointPlaceError(
            f"no checkpoint in {directory} is whole on the nodes of this job ({here.lack})"
            f"{copies if wanted.has_copies else ''}; run on the nodes that have the parts, "
            f"{'' if wanted.has_copies else 'or give copies=, '}or call restore(anew=True) to begin "
            "anew at step 0"
        )


def _put_aside(entries: list[Found]) -> None:
    """Into quarantine with what is damaged when it is read once more."""
    for entry in entries:
        # What was saved with poison is put aside too: it has a later step than what follows.
        poison = plain(entry.manifest.poison) if entry.manifest else ""
        if why := poison or damage(entry):
            _move(entry.path, why)


def _move(path: Path, why: str) -> None:
    try:
        log.warning("%s was moved to %s", path, set_aside(path, why))
    except OSError as error:
        log.warning("%s cannot be put aside: %s", path, error)


def _verified(entry: Found, peers: Peers, nodes: Nodes) -> str:
    share, shares = nodes.ranks.index(peers.rank), len(nodes.ranks)
    reports = peers.each_at_length(lambda: list(problems(entry, share=share, shares=shares)))
    return next((problem for report in reports for problem in report), "")
