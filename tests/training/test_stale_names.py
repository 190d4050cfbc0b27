"""A network file system that still shows one node what a name stood for before."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import torch

from slurm_resilience.checkpoint_files.listing import directory_name, found
from slurm_resilience.errors import CheckpointError
from slurm_resilience.training import Checkpoints, Run
from tests.missing import missing
from tests.training.ranks import on_ranks

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 4096, 16384, 1 << 18


def save_again(directory: Path, old: Path) -> str:
    """Save step 0 under a name by which rank 1 still finds the directory *old*."""
    rank = torch.distributed.get_rank()
    name = directory / directory_name(0)
    if rank == 1:
        _show_to_this_process(old, name)
    run = Run(checkpoints=Checkpoints(directory), state={"x": torch.full((1000,), rank + 7.0)})
    run.restore(anew=True)
    run.step(0)
    try:
        run.finish()
    except CheckpointError as error:
        return str(error)
    return "saved"


def _show_to_this_process(old: Path, name: Path) -> None:
    """From when the name is there: a mount that no other process sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert not libc.unshare(CLONE_NEWNS)
    assert not libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)

    def look(event: str, arguments: tuple[object, ...]) -> None:
        shown = event == "open" and str(arguments[0]).startswith(f"{name}/")
        if shown and not os.path.ismount(name):
            assert not libc.mount(os.fsencode(old), os.fsencode(name), None, MS_BIND, None)

    sys.addaudithook(look)


def test_what_was_written_is_read_back_and_not_what_had_its_name(tmp_path: Path) -> None:
    """A step is saved again within the time for which a node keeps a name in memory."""
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        missing("mount namespaces are not allowed")
    directory = tmp_path / "c"
    on_ranks(first_save, directory, world_size=2, folder=tmp_path / "b")
    old = tmp_path / "old"
    (directory / directory_name(0)).rename(old)

    said = on_ranks(save_again, directory, old, world_size=2, folder=tmp_path / "b")

    assert said == ["saved"] * 2
    assert [entry.path.name for entry in found(directory)] == [directory_name(0)]


def first_save(directory: Path) -> None:
    """Step 0, of which every rank writes a file."""
    rank = torch.distributed.get_rank()
    run = Run(checkpoints=Checkpoints(directory), state={"x": torch.full((1000,), float(rank))})
    run.step(run.restore())
    run.finish()
