"""Ranks of one node share its memory: all is asked for at once, and nothing is counted twice."""

from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from slurm_resilience.training.memory import Need, left, refusals
from slurm_resilience.training.staging import cuda_devices
from tests.training import memory_jobs
from tests.training.memory_jobs import MIB, tell_of
from tests.training.ranks import on_ranks


def need(lacking_mib: int, **left_mib: int) -> Need:
    """Of a rank that takes of what is named."""
    return Need(lacking_mib * MIB, {name: number * MIB for name, number in left_mib.items()})


@pytest.mark.parametrize(
    ("needs", "refused"),
    [
        ([need(70, n1=100), need(10, n1=100)], ["", ""]),
        ([need(70, n1=100), need(40, n1=90)], ["110 of 90, 2 ranks"] * 2),
        ([need(70, n1=100), need(0, n1=60)], ["70 of 60, 2 ranks", ""]),
        ([need(70, n1=100), need(70, n2=100)], ["", ""]),
        ([need(70, n1=100), need(70, n2=60)], ["", "70 of 60, 1 ranks"]),
        ([need(9, n1=99, job=10), need(9, n1=99, job=10)], ["18 of 10, 2 ranks"] * 2),
        ([need(9, n1=99, task0=10), need(9, n1=99, task1=10)], ["", ""]),
        ([need(9, n1=99, task0=10), need(9, n1=99, task1=8)], ["", "9 of 8, 1 ranks"]),
        ([need(9), need(9)], ["", ""]),
    ],
    ids=[
        "one has the most", "too much in all", "one has nothing to take", "two nodes",
        "another node", "a job's limit", "a limit each", "one limit is reached", "nothing known",
    ],
)  # fmt: skip
def test_what_ranks_need_is_compared_with_what_they_share(
    needs: list[Need], refused: list[str]
) -> None:
    """By node and by memory limit, what each needs itself; who takes nothing is refused nothing."""
    said = refusals(needs)

    for why, expected in zip(said, refused, strict=True):
        if not expected:
            assert not why
        else:
            needed, available, ranks = expected.replace(" of ", ", ").split(", ")
            assert why == (
                f"{needed} MiB are needed on this node ({ranks}), "
                f"{available} MiB are left to this job"
            )


@pytest.mark.parametrize("version", [1, 2])
def test_ranks_of_a_job_know_its_memory_limit_by_the_same_name(
    tmp_path: Path, version: int
) -> None:
    """Each in a cgroup of its own below the job's, one of them as a container shows it."""
    tell_of(tmp_path, 100)
    (tmp_path / "proc/self").mkdir()
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("4711\n")
    top = tmp_path / "sys/fs/cgroup"
    controllers, names = "", ("memory.max", "memory.current")
    if version == 1:
        top /= "memory"
        controllers, names = "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes")
    for path, limit in (
        ("job_7", 50 * MIB),
        ("job_7/task_0", 30 * MIB),
        ("job_7/task_1", 40 * MIB),
    ):
        (top / path).mkdir(parents=True, exist_ok=True)
        for name, text in zip(names, (str(limit), str(MIB)), strict=True):
            (top / path / name).write_text(text)
        (top / path / "memory.stat").write_text("anon 1\ninactive_file 0\n")

    def seen_by(task: str, root: Path) -> dict[str, int]:
        (root / "proc/self/cgroup").write_text(f"1:name=systemd:/x\n4:{controllers}:{task}\n")
        return left(root)

    first, second = seen_by("/job_7/task_0", tmp_path), seen_by("/job_7/task_1", tmp_path)

    inside = tmp_path / "inside"
    (inside / top.relative_to(tmp_path)).parent.mkdir(parents=True)
    (inside / "proc").symlink_to(tmp_path / "proc")
    (inside / top.relative_to(tmp_path)).symlink_to(top / "job_7")
    third = seen_by("/job_7", inside)
    assert sorted(first.values()) == [29 * MIB, 49 * MIB, 100 * MIB]
    assert sorted(second.values()) == [39 * MIB, 49 * MIB, 100 * MIB]
    assert sorted(number // MIB for name, number in first.items() if name in second) == [
        49,
        100,
    ]
    assert third == {name: number for name, number in first.items() if name in second}


def test_no_rank_takes_memory_before_all_have_looked(tmp_path: Path) -> None:
    """What one has taken already would be missing to another, and be asked for once more."""
    said = on_ranks(
        memory_jobs.look_late, tmp_path / "c", tmp_path, world_size=2, folder=tmp_path / "b"
    )

    assert said == [True, True]


def test_a_rank_that_grows_looks_alone_for_what_it_lacks(tmp_path: Path) -> None:
    """No exchange, and not for everybody's memory anew; as if the other rank grew as much."""
    said = on_ranks(
        memory_jobs.one_asks_alone, tmp_path / "root", world_size=2, folder=tmp_path / "b"
    )

    refused = "22 MiB are needed on this node (2 ranks), 20 MiB are left to this job"
    assert said == [["", "", "", "", refused], [""]]


def test_ranks_tell_each_other_what_they_need_until_there_is_enough(tmp_path: Path) -> None:
    """One of them the most of it; refused while there is too little, and no longer."""
    asked = [(90, [70, 30]), (110, [70, 30]), (20, [10, 0])]

    said = on_ranks(
        memory_jobs.ask_in_turn, tmp_path / "root", asked, world_size=2, folder=tmp_path / "b"
    )

    refused = "100 MiB are needed on this node (2 ranks), 90 MiB are left to this job"
    assert said == [[refused, "", ""]] * 2


def test_where_one_has_nothing_to_copy_all_hear_of_it(tmp_path: Path) -> None:
    """None waits for what it needs; the next time all are there."""
    said = on_ranks(
        memory_jobs.one_has_nothing_to_copy, tmp_path, world_size=2, folder=tmp_path / "b"
    )

    assert said[0] == said[1]
    assert said[0][0].startswith("rank 1 on ")
    assert said[0][0].endswith(": not what was planned for")
    assert said[0][1].endswith(" bytes")


def test_every_gpu_that_is_copied_from_is_waited_for() -> None:
    """Each has a stream of its own; host memory has none."""
    with FakeTensorMode():
        tensors = [
            torch.empty(1, device=place) for place in ("cuda:1", "cpu", "cuda:0", "cuda:1")
        ]

        devices = cuda_devices(tensors)

    assert devices == {torch.device("cuda", 0), torch.device("cuda", 1)}
