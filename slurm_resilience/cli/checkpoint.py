"""
Commands of `checkpoint`: what is there, what is sound, what to resume from, what may go.

Needs no torch.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from slurm_resilience.checkpoint_files.instead import instead
from slurm_resilience.checkpoint_files.judging import Judge, judged, read, sizes
from slurm_resilience.checkpoint_files.keep import is_poisoned
from slurm_resilience.checkpoint_files.listing import Found, found, problems, shown
from slurm_resilience.checkpoint_files.pruning import clear, planned, take_out, unowned
from slurm_resilience.checkpoint_files.quarantine import (
    Reason,
    damage,
    put_aside,
    set_aside,
    thin_out,
)
from slurm_resilience.cli import checkpoint_copies
from slurm_resilience.cli.checkpoint_lines import HEADER, UNKNOWN, columns, whose
from slurm_resilience.errors import CheckpointPlaceError, UsageError
from slurm_resilience.plain import plain

SOUND, UNSOUND = 0, 1


class Report(NamedTuple):
    """One checkpoint and what is wrong with it."""

    entry: Found
    problem: str


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    group = commands.add_parser(
        "checkpoint",
        help="what checkpoints there are, which are sound, which to resume from",
        description="Exit status: 0 done, all sound; 1 something unsound, or none there; 2 could not look.",
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
        if do is path:
            command.add_argument(
                "--sound",
                action="store_true",
                help="the newest in which neither NaN nor infinity was seen; 1: there is none",
            )
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
    """Print the newest sound checkpoint; what was skipped, or speaks against it, goes to standard error."""

    def wanted(sound: Sequence[Found]) -> list[Found]:
        return [one for one in sound if not (arguments.sound and is_poisoned(one))]

    seen = judged(arguments.directory, read, is_enough=lambda sound: bool(wanted(sound)))
    skipped = [one for one in seen.sound if one not in wanted([one])]
    whys = {**seen.unsound, **{one.path: _poison(one) for one in skipped}}
    for where, why in whys.items():
        print(f"skipped {shown(where)}: {why}", file=sys.stderr)
    newest = next(iter(wanted(seen.sound)), None)
    if arguments.json:
        poison = newest.manifest.poison if newest and newest.manifest else ""
        told = {"path": newest and str(newest.path), "poison": poison or None}
        print(json.dumps(told))
    elif newest is None:
        there = shown if seen.entries else _described
        print(f"no sound checkpoint in {there(arguments.directory)}", file=sys.stderr)
    else:
        # As the system has it: a name need not be text.
        sys.stdout.buffer.write(os.fsencode(newest.path) + b"\n")
        sys.stdout.flush()
        _tell_more(newest)
    return UNSOUND if newest is None else SOUND


def _tell_more(newest: Found) -> None:
    if poison := _poison(newest):
        print(f"it is {poison}; --sound prints the newest without", file=sys.stderr)
    if newest.manifest and newest.manifest.part:
        part = newest.manifest.part
        print(f"it is {whose(part)}; the rest lies on other nodes", file=sys.stderr)


def _poison(entry: Found) -> str:
    poison = entry.manifest.poison if entry.manifest else ""
    return f"poisoned: {plain(poison)}" if poison else ""


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
        print(f"{HEADER}STATE")
        for report in reports:
            print(_line(report, sound="sound" if arguments.do is verify else "whole"))
    else:
        print(f"no checkpoints in {_described(arguments.directory)}")
    if not arguments.json:
        for path, reason in aside:
            print(f"in quarantine {shown(path)}: {plain(reason.why)}")
    is_unsound = not reports or any(report.problem for report in reports)
    return UNSOUND if is_unsound else SOUND


def _described(directory: Path) -> str:
    what = instead(directory)
    return f"{shown(directory)}{': ' if what else ''}{what}"


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


def _line(report: Report, *, sound: str) -> str:
    manifest = report.entry.manifest
    if manifest is None:
        return f"{UNKNOWN}{shown(Path(report.entry.path.name))}: {report.problem}"
    state = report.problem or _poison(report.entry) or sound
    if manifest.part:
        state += f"; {whose(manifest.part)}"
    return f"{columns(manifest)}{state}"
