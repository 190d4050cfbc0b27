"""Ranks that verify a checkpoint together read about as much each."""

import pytest

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.listing import dealt
from slurm_resilience.checkpoint_files.manifest import File


@pytest.mark.parametrize("ranks", [1, 2, 7, 8, 64])
def test_every_rank_reads_one_of_the_large_files(ranks: int) -> None:
    """Those of tensors, which their names do not put in turn with the small ones."""
    files = {manifests.INDEX: File(size_bytes=5000, crc32=0)}
    for rank in range(ranks):
        files[manifests.tensors_name(rank)] = File(size_bytes=10**9 + rank, crc32=0)
        files[manifests.values_name(rank)] = File(size_bytes=1000, crc32=0)

    shares = [dealt(files, share, ranks) for share in range(ranks)]

    assert sorted(name for share in shares for name in share) == sorted(files)
    large = [sum(name.endswith(".tensors") for name in share) for share in shares]
    assert large == [1] * ranks


def test_no_share_reads_none() -> None:
    """Sizes only."""
    assert not dealt({"index.json": File(size_bytes=1, crc32=0)}, 0, 0)
