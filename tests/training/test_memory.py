"""Host memory is looked at before it is taken: the kernel does not refuse, it kills."""

from pathlib import Path

import pytest
import torch

from slurm_resilience.checkpoint_files.listing import found
from slurm_resilience.errors import CheckpointSaveError
from slurm_resilience.training import Checkpoints, Run
from slurm_resilience.training.memory import left, left_bytes


@pytest.mark.parametrize(
    ("limit", "current", "stat", "expected"),
    [
        ("1000\n", "400\n", "anon 300\ninactive_file 100\n", 700),
        ("1000\n", "400\n", "total_inactive_file 50\ninactive_file 10\n", 650),
        ("1000\n", "1200\n", "anon 1200\n", 0),
        ("max\n", "400\n", "anon 300\n", None),
        ("1000\n", "", "", None),
    ],
    ids=["version 2", "version 1", "over it", "no limit", "not told"],
)
def test_the_room_in_a_memory_cgroup(
    limit: str, current: str, stat: str, expected: int | None
) -> None:
    """What may still be taken; pages of files that nobody uses do not count."""
    assert left_bytes(limit, current, stat) == expected


def test_this_machine_tells_what_is_left() -> None:
    """Less than all it has, more than nothing."""
    total_kib = int(Path("/proc/meminfo").read_text().split()[1])

    available = min(left().values())

    assert 0 < available <= total_kib * 1024


def test_a_state_larger_than_memory_is_not_saved_and_said(tmp_path: Path) -> None:
    """No page of it is touched, the process lives, and the line has both figures."""
    vast = torch.zeros(1).expand(1 << 44)  # 64 TiB
    run = Run(checkpoints=Checkpoints(tmp_path / "c"), state={"x": [vast]})
    run.restore()
    run.step(0)

    with pytest.raises(CheckpointSaveError, match=r"65536\.0 GiB are needed on this node") as e:
        run.finish()

    assert "are left to this job" in str(e.value)
    assert found(tmp_path / "c") == []
