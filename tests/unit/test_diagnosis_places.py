"""The node of a rank that is at fault, wherever the launcher's own lines tell it."""

from pathlib import Path

import pytest

from slurm_resilience.diagnosis.policy import decide
from slurm_resilience.diagnosis.sources import left_in

ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
KILLED = "failed (exitcode: -9) local_rank: 1 (pid: 1239) of binary: /usr/bin/python3\n"
NAN = "[rank17]: AssertionError: Rank 17: found NaN in local grad norm in backward pass before data-parallel communication collective"


def table(rank: int, local: int, host: str, status: int = 1) -> str:
    return (
        f"[0]:\n  time      : 2026-11-30_03:12:44\n  host      : {host}\n"
        f"  rank      : {rank} (local_rank: {local})\n  exitcode  : {status} (pid: 1239)\n"
    )


def exited(node: str, tasks: str, how: str = "Exited with exit code 1") -> str:
    return f"srun: error: {node}: {'tasks' if '-' in tasks else 'task'} {tasks}: {how}\n"


@pytest.mark.parametrize(
    ("log", "suspects"),
    [
        (f"[rank9]: {ECC}" + table(9, 1, "gpu7"), [(9, "gpu7", None)]),
        (f"[rank9]: {ECC}" + table(9, 1, "gpu7") + exited("gpu8", "9"), [(9, "gpu7", None)]),
        (f"[rank9]: {ECC}" + table(8, 0, "gpu7"), [(9, None, None)]),
        (f"[rank9]: {ECC}" + exited("gpu7", "8-15"), [(9, "gpu7", None)]),
        (f"[rank1]: {ECC}" + KILLED + exited("gpu7", "1"), [(1, None, None)]),
        (f"9: {ECC}" + exited("gpu6", "8") + exited("gpu7", "9"), [(None, "gpu7", None)]),
        (f"9: {ECC}" + exited("gpu[6-7]", "8-15"), []),
        (KILLED + table(9, 1, "gpu7", -9), [(9, "gpu7", 1)]),
        (exited("n[3-4]", "16-31", "Killed") + exited("n2", "8", "Killed"), [(None, "n3", None), (None, "n4", None)]),
        (f"{NAN}. Device: 1, node: gpu-0003\n", [(17, "gpu-0003", None)]),
    ],
    ids=[
        "torchrun's table", "the table before srun", "another rank's row", "tasks of srun", "tasks under torchrun",
        "label", "two nodes", "the same rank twice", "killed", "Megatron",
    ],
)  # fmt: skip
def test_a_suspect_is_placed_where_the_text_tells(
    tmp_path: Path, log: str, suspects: list[tuple[int | None, str | None, int | None]]
) -> None:
    """A node is what a person can exclude; none is guessed."""
    path = tmp_path / "slurm-41.out"
    path.write_text(log)

    found = decide(left_in([path])).suspects

    assert [(one.rank, one.node, one.local_rank) for one in found] == suspects
