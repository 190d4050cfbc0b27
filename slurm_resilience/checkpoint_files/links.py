"""
Hard links by which a copy under way keeps what it sends, whether the checkpoint is deleted or not.

Their folder holds a lock, which the system lets go when the copier dies: so the next copy knows which
were left by one that was killed, and take the room of a checkpoint for nobody.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from slurm_resilience.checkpoint_files.keep import SAVING, delete
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.errors import CheckpointLoadError, LockBusyError
from slurm_resilience.locks import held
from slurm_resilience.plain import plain

COPYING = f"{SAVING}links-"
BEGUN = f"{SAVING}begun-links-"
LOCK = "copier.lock"


@contextmanager
def kept(checkpoint: Path, manifest: Manifest) -> Iterator[Path]:
    """
    A folder with the files of *checkpoint* that lasts while it is copied; where no links can be made,
    the checkpoint itself.

    Raises `CheckpointLoadError` where it was deleted before.
    """
    remove_left(checkpoint.parent)
    name = f"{checkpoint.name}-{secrets.token_hex(8)}"
    links = checkpoint.with_name(f"{COPYING}{name}")
    with ExitStack() as ours:
        try:
            _make(checkpoint.with_name(f"{BEGUN}{name}"), links, ours)
            for file in manifest.files:
                os.link(checkpoint / file, links / file, follow_symlinks=False)
        except FileNotFoundError as error:
            raise CheckpointLoadError(f"{plain(str(error.filename))} is gone") from error
        except OSError:  # no write access, or no links on this file system
            yield checkpoint
        else:
            yield links


def remove_left(directory: Path) -> None:
    """Delete the links of copiers that were killed; where no lock tells, the next attempt does."""
    for links in directory.glob(f"{COPYING}*"):
        with suppress(OSError, NotImplementedError, LockBusyError), held(links / LOCK):
            delete(links)


def _make(begun: Path, links: Path, ours: ExitStack) -> None:
    """The folder *links*, not seen under that name before its lock is held."""
    begun.mkdir()
    ours.callback(shutil.rmtree, begun, ignore_errors=True)
    with suppress(OSError, NotImplementedError):  # no locks on this file system
        ours.enter_context(held(begun / LOCK))
    begun.rename(links)
    ours.callback(shutil.rmtree, links, ignore_errors=True)
