"""`checkpoint copy`, `copies` and `fetch`: to object storage, what is there, and back."""

import argparse
import json
import logging
import os
import re
import select
import sys
from contextlib import ExitStack
from pathlib import Path

from slurm_resilience.checkpoint_files.copies import copy_newest
from slurm_resilience.checkpoint_files.fetching import fetch_named, fetch_newest, remove_cut_off
from slurm_resilience.checkpoint_files.listing import shown
from slurm_resilience.checkpoint_files.owner import confirm
from slurm_resilience.checkpoint_files.pruning import unowned
from slurm_resilience.checkpoint_files.quarantine import thin_out
from slurm_resilience.checkpoint_files.store import PART, Store
from slurm_resilience.checkpoint_files.stored import stored
from slurm_resilience.cli.checkpoint_lines import HEADER, columns
from slurm_resilience.errors import CheckpointError
from slurm_resilience.plain import plain

log = logging.getLogger(__name__)

DONE, NONE = 0, 1
URL_HELP = "where copies lie: s3://bucket/path, or another that fsspec knows; one a training"
AGAIN_S = 60.0
"""After a copy that failed."""
FEW = 3


def add_commands(group: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add them to `checkpoint`."""
    text = "copy the newest that verifies to object storage; 1: there is none"
    copy = group.add_parser("copy", help=text, description=text)
    copy.add_argument("directory", type=Path, metavar="DIR", help="of checkpoints")
    copy.add_argument("url", metavar="URL", help=URL_HELP)
    copy.add_argument(
        "--keep", type=count, default=2, metavar="N", help="copies that stay there (2)"
    )
    copy.add_argument(
        "--every-minutes",
        type=count,
        metavar="M",
        help="go on, with a look so often, until standard input ends",
    )
    copy.set_defaults(do=copy_)
    text = "bring the newest copy that verifies back, into a directory that no job writes to; 1: there is none"
    fetch = group.add_parser("fetch", help=text, description=text)
    fetch.add_argument("url", metavar="URL", help=URL_HELP)
    fetch.add_argument("directory", type=Path, metavar="DIR", help="of checkpoints")
    fetch.set_defaults(do=fetch_)
    fetch.add_argument(
        "--name", metavar="NAME", help="this one, as `checkpoint copies` shows it"
    )
    fetch.add_argument(
        "--owner",
        default="",
        metavar="TOKEN",
        help="for who has claimed DIR: the token in its owner.json",
    )
    text = "what copies there are, whole ones, the latest step first; 1: there is none"
    listing = group.add_parser("copies", help=text, description=text)
    listing.add_argument("url", metavar="URL", help=URL_HELP)
    listing.set_defaults(do=copies_)
    for command in (copy, fetch, listing):
        command.add_argument("--json", action="store_true", help="one JSON document")


def count(text: str) -> int:
    """A number of 1 or more, as argparse asks for."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"{plain(text, most=40)!r} is no number of 1 or more")
    return int(text)


def copy_(arguments: argparse.Namespace) -> int:
    """Copy once, or again and again."""
    store = _store(arguments)
    if arguments.every_minutes:
        return _copy_on(arguments, store)
    name = copy_newest(arguments.directory, store, keep=arguments.keep)
    if arguments.json:
        print(json.dumps({"copy": f"{store.url}/{name}" if name else None}))
    elif name:
        print(plain(f"{store.url}/{name}"))
    else:
        print(f"no sound checkpoint in {shown(arguments.directory)}", file=sys.stderr)
    return DONE if name else NONE


def fetch_(arguments: argparse.Namespace) -> int:
    """Bring one back."""
    store = _store(arguments)
    try:
        path = _fetched(arguments, store)
    except CheckpointError as error:
        if arguments.json:
            print(json.dumps({"path": None, "error": type(error).__name__}))
        raise
    thin_out(arguments.directory)
    if arguments.json:
        print(json.dumps({"path": str(path) if path else None}))
    elif path:
        print(shown(path))
    else:
        _say_none("copy", store)
    return DONE if path else NONE


def _fetched(arguments: argparse.Namespace, store: Store) -> Path | None:
    directory = arguments.directory
    with ExitStack() as claim:
        if arguments.owner:
            confirm(directory, arguments.owner)
        else:
            claim.enter_context(unowned(directory))
        remove_cut_off(directory)
        if arguments.name is None:
            return fetch_newest(store, directory, owner=arguments.owner)
        return fetch_named(store, arguments.name, directory, owner=arguments.owner)


def copies_(arguments: argparse.Namespace) -> int:
    """Show what is there."""
    store = _store(arguments)
    copies, unfit = stored(store)
    if arguments.json:
        documents = [
            {
                "name": copy.name,
                "step": copy.manifest.step,
                "saved_at": copy.manifest.saved_at,
                "size_bytes": copy.manifest.size_bytes,
                "world_size": copy.manifest.world_size,
                "ranks": list(copy.manifest.ranks),
                "identity": copy.manifest.identity,
            }
            for copy in copies
        ]
        unusable = [{"name": name, "why": why} for name, why in unfit.items()]
        print(json.dumps({"copies": documents, "unusable": unusable}))
    elif copies:
        print(f"{HEADER}NAME")
        for copy in copies:
            print(f"{columns(copy.manifest)}{plain(copy.name)}")
    else:
        _say_none("whole copy" if unfit else "copy", store)
    return DONE if copies else NONE


def _say_none(what: str, store: Store) -> None:
    parts = [name for name in store.names() if PART.fullmatch(f"/{name}")]
    hint = (
        f"; nodes' parts lie in {', '.join(parts[:FEW])}{', …' * (len(parts) > FEW)}"
        if parts
        else ""
    )
    print(f"no {what} in {plain(store.url)}{hint}", file=sys.stderr)


def _store(arguments: argparse.Namespace) -> Store:
    for talker in ("aiobotocore", "botocore", "s3fs"):  # where they found their credentials, …
        logging.getLogger(talker).setLevel(logging.WARNING)
    return Store(arguments.url)


def _copy_on(arguments: argparse.Namespace, store: Store) -> int:
    """A copy that fails is said and tried again; training does not depend on it."""
    every_s = arguments.every_minutes * 60.0
    last, wait_s = "", 0.0
    while not _has_ended(wait_s):
        wait_s = every_s
        try:
            name = copy_newest(arguments.directory, store, keep=arguments.keep)
        except CheckpointError as error:
            log.warning("no copy was made: %s", error)
            wait_s = min(AGAIN_S, every_s)
            continue
        if name and name != last:
            log.info("copied to %s/%s", store.url, name)
        last = name or last
    return DONE


def _has_ended(wait_s: float) -> bool:
    """Whether who started us is gone: waits for that, but no longer than *wait_s*."""
    ready, _, _ = select.select([sys.stdin], [], [], wait_s)
    return bool(ready) and not os.read(sys.stdin.fileno(), 1 << 16)
