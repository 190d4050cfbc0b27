"""
Commands of `checkpoint`: what is there, what is sound, what to resume from, what may go.

Needs no torch.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from slurm_resilience.checkpoint_files.judging import Judge, judged, read, sizes
from slurm_resilience.checkpoint_files.listing import Found, found, problems, shown
from slurm_resilience.checkpoint_files.manifest import Part
from slurm_resilience.checkpoint_files.pruning import clear, planned, take_out, unowned
from slurm_resilience.checkpoint_files.quarantine import (
    Reason,
    damage,
    put_aside,
    set_aside,
    thin_out,
)
from slurm_resilience.cli import checkpoint_copies
from slurm_resilience.errors import CheckpointPlaceError, UsageError
from slurm_resilience.plain import plain

SOUND, UNSOUND = 0, 1
GIB = 1 << 30


class Report(NamedTuple):
    """One checkpoint and what is wrong with it."""

    entry: Found
    problem: str


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    group = commands.add_parser(
        "checkpoint",
        help="what checkpoints there are, which are sound, which to resume from",
        description="Exit status: 0 all sound, 1 something unsound, 2 could not look.",
    ).add_subparsers(metavar="WHAT", required=True)
    for name, do, text in (
        ("list", list_, "what is there; file sizes are checked, contents are not read"),
        (
            "verify",
            verify,
            "read everything: are digests right, can index and values be loaded",
        ),
        ("path", path, "print the newest checkpoint that verifies; 1: there is none"),
    ):
        command = group.add_parser(name, help=text, description=text)
        command.add_argument(
            "directory", type=Path, metavar="DIR", help="of checkpoints, or one"
        )
        command.add_argument(
            "--json", action="store_true", help="one JSON document, nothing else"
        )
        command.set_defaults(do=do)
        if do is verify:
            command.add_argument(
                "--quarantine",
                action="store_true",
                help="move what is damaged into DIR/quarantine, unless a job writes to DIR",
            )
    checkpoint_copies.add_commands(group)
    text = "delete all but the newest that verify, unless a job writes to DIR"
    command = group.add_parser("prune", help=text, description=text)
    command.add_argument("directory", type=Path, metavar="DIR", help="of checkpoints")
    command.add_argument(
        "--keep",
        type=checkpoint_copies.count,
        required=True,
        metavar="N",
        help="how many stay, 1 or more",
    )
    command.add_argument("--dry-run", action="store_true", help="only say what would go")
    command.add_argument("--json", action="store_true", help="one JSON document, nothing else")
    command.set_defaults(do=prune_)


def list_(arguments: argparse.Namespace) -> int:
    """Show all checkpoints; sizes only."""
    reports = _reports(arguments.directory, sizes)
    return _show(arguments, reports)


def verify(arguments: argparse.Namespace) -> int:
    """Show all checkpoints after reading them; with --quarantine put the damaged ones aside."""
    if not arguments.quarantine:
        return _show(arguments, _reports(arguments.directory, _read))
    _refuse_single(arguments.directory)
    with unowned(arguments.directory):
        pass  # refused now, and not after hours of reading
    # Not under the lock, which would keep a job out for so long.
    reports = _reports(arguments.directory, _read)
    status = _show(arguments, reports)
    damaged = [(one.entry, damage(one.entry)) for one in reports if one.problem]
    with unowned(arguments.directory):
        now = found(arguments.directory)
        for entry, why in damaged:
            if why and entry in now:
                print(f"{shown(entry.path)} {_moved(entry.path, why)}", file=sys.stderr)
    thin_out(arguments.directory)
    return status


def _read(entry: Found) -> str:
    return "; ".join(problems(entry))


def _moved(checkpoint: Path, why: str) -> str:
    try:
        return f"was moved to {shown(set_aside(checkpoint, why))}"
    except OSError as error:
        raise CheckpointPlaceError(
            f"{shown(checkpoint)} cannot be put aside: {error.strerror}"
        ) from error


def prune_(arguments: argparse.Namespace) -> int:
    """Delete old checkpoints, or say which."""
    _refuse_single(arguments.directory)
    # Reads a lot: not under the lock, which would keep a job out for so long.
    pruning = planned(arguments.directory, keep=arguments.keep)
    left: list[Path] = []
    if not arguments.dry_run:
        pruning, taken_out = take_out(arguments.directory, keep=arguments.keep, pruning=pruning)
        left = taken_out[len(pruning.going) :]
        clear(taken_out)
    for path in left:
        print(f"deleted {shown(path)}, which was never finished", file=sys.stderr)
    gone = [entry.path for entry in reversed(pruning.going)]
    if arguments.json:
        kept_for = {str(path): why for path, why in pruning.unsound.items()}
        names = [str(path) for path in gone]
        print(json.dumps({"deleted": names, "dry_run": arguments.dry_run, "unsound": kept_for}))
        return SOUND
    for path, why in pruning.unsound.items():
        print(f"not counted {shown(path)}: {why}", file=sys.stderr)
    done = "would delete" if arguments.dry_run else "deleted"
    for gone_path in gone:
        print(f"{done} {shown(gone_path)}")
    if not gone:
        print(f"nothing to delete in {shown(arguments.directory)}")
    return SOUND


def _refuse_single(directory: Path) -> None:
    if [entry.path for entry in found(directory)] == [directory]:
        raise UsageError(
            f"{shown(directory)} is one checkpoint; name the directory that it is in"
        )


def path(arguments: argparse.Namespace) -> int:
    """Print the newest sound checkpoint; what was skipped goes to standard error."""
    seen = judged(arguments.directory, read, is_enough=bool)
    for skipped, problem in seen.unsound.items():
        print(f"skipped {shown(skipped)}: {problem}", file=sys.stderr)
    newest = part = None
    for entry in seen.sound[:1]:
        newest, part = entry.path, entry.manifest and entry.manifest.part
    if arguments.json:
        print(json.dumps({"path": None if newest is None else str(newest)}))
    elif newest is None:
        print(f"no sound checkpoint in {shown(arguments.directory)}", file=sys.stderr)
    else:
        # As the system has it: a name need not be text.
        sys.stdout.buffer.write(os.fsencode(newest) + b"\n")
        sys.stdout.flush()
        if part:
            print(f"it is {_whose(part)}; the rest lies on other nodes", file=sys.stderr)
    return UNSOUND if newest is None else SOUND


def _reports(directory: Path, judge: Judge) -> list[Report]:
    seen = judged(directory, judge)
    return [
        Report(entry, seen.problems[entry.path])
        for entry in seen.entries
        if entry.path in seen.problems
    ]


def _show(arguments: argparse.Namespace, reports: list[Report]) -> int:
    aside = _aside(arguments.directory)
    if arguments.json:
        document = {
            "checkpoints": [_document(report) for report in reports],
            "quarantine": [
                {"path": str(path), "why": reason.why, "since": reason.since}
                for path, reason in aside
            ],
        }
        print(json.dumps(document))
    elif reports:
        print(f"{'STEP':>9}  {'SAVED':19}  {'RANKS':>5}  {'GIB':>9}  {'TOOK':>8}  STATE")
        for report in reports:
            print(_line(report, sound="sound" if arguments.do is verify else "whole"))
    else:
        print(f"no checkpoints in {shown(arguments.directory)}")
    if not arguments.json:
        for path, reason in aside:
            print(f"in quarantine {shown(path)}: {plain(reason.why)}")
    return UNSOUND if any(report.problem for report in reports) else SOUND


def _aside(directory: Path) -> list[tuple[Path, Reason]]:
    try:
        return put_aside(directory)
    except OSError as error:
        raise CheckpointPlaceError(f"{shown(directory)}: {error}") from error


def _document(report: Report) -> dict[str, object]:
    manifest = report.entry.manifest
    known = {
        "step": manifest and manifest.step,
        "saved_at": manifest and manifest.saved_at,
        "world_size": manifest and manifest.world_size,
        "size_bytes": manifest and manifest.size_bytes,
        "took_s": manifest and manifest.took_s,
        "job": manifest and manifest.job,
        "poison": manifest.poison or None if manifest else None,
        "part": msgspec.to_builtins(manifest.part) if manifest else None,
    }
    return {"path": str(report.entry.path), **known, "problem": report.problem or None}


def _whose(part: Part) -> str:
    first, last = part.ranks[0], part.ranks[-1]
    ranks = f"rank {first}" if first == last else f"ranks {first} to {last}"
    return f"the part of {ranks}, written on {plain(part.node, most=80)}"


def _line(report: Report, *, sound: str) -> str:
    manifest = report.entry.manifest
    if manifest is None:
        return f"{'?':>9}  {shown(Path(report.entry.path.name))}: {report.problem}"
    saved = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(manifest.saved_at))
    state = report.problem or (
        f"poisoned: {plain(manifest.poison)}" if manifest.poison else sound
    )
    if manifest.part:
        state += f"; {_whose(manifest.part)}"
    return (
        f"{manifest.step:>9}  {saved}  {manifest.world_size:>5}  {manifest.size_bytes / GIB:>9.3f}"
        f"  {manifest.took_s:>7.1f}s  {state}"
    )
