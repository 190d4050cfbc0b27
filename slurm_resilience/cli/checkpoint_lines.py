"""Checkpoints in lines: those of a directory, and copies of them."""

import time

from slurm_resilience.checkpoint_files.manifest import Manifest, Part
from slurm_resilience.plain import plain

GIB = 1 << 30
HEADER = f"{'STEP':>9}  {'SAVED':19}  {'RANKS':>5}  {'GIB':>9}  {'TOOK':>8}  "
UNKNOWN = f"{'?':>9}  "


def columns(manifest: Manifest) -> str:
    """What stands below `HEADER`."""
    saved = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(manifest.saved_at))
    return (
        f"{manifest.step:>9}  {saved}  {manifest.world_size:>5}  {manifest.size_bytes / GIB:>9.3f}"
        f"  {manifest.took_s:>7.1f}s  "
    )


def whose(part: Part) -> str:
    """Which node's it is."""
    first, last = part.ranks[0], part.ranks[-1]
    ranks = f"rank {first}" if first == last else f"ranks {first} to {last}"
    return f"the part of {ranks}, written on {plain(part.node, most=80)}"
