"""The user's command as each node starts it."""

import pytest

from slurm_resilience.watch.torchrun import (
    Meeting,
    ranks_here,
    ranks_in_words,
    with_meeting,
    without_torchrun,
)

MEETING = Meeting(nodes=2, node_rank=1, address="10.0.0.1", port=23456, ranks_here=8)
RENDEZVOUS = ["--node-rank=1", "--master-addr=10.0.0.1", "--master-port=23456"]


@pytest.mark.parametrize(
    ("command", "started"),
    [
        (
            "torchrun train.py --nnodes 7",
            ["torchrun", *RENDEZVOUS, "--nnodes=2", "--nproc-per-node=8", "train.py", "--nnodes", "7"],
        ),
        (
            "torchrun --nproc_per_node 4 train.py",
            ["torchrun", *RENDEZVOUS, "--nnodes=2", "--nproc_per_node", "4", "train.py"],
        ),
        (
            "torchrun --nnodes=2:4 --no-python ./train",
            ["torchrun", *RENDEZVOUS, "--nproc-per-node=8", "--nnodes=2:4", "--no-python", "./train"],
        ),
        (
            "torchrun --rdzv_backend=c10d --rdzv-endpoint n1:29400 --nnodes 2 train.py",
            ["torchrun", "--nproc-per-node=8", "--rdzv_backend=c10d", "--rdzv-endpoint", "n1:29400",
             "--nnodes", "2", "train.py"],
        ),
        (
            "torchrun --standalone train.py",
            ["torchrun", "--nproc-per-node=8", "--standalone", "train.py"],
        ),
        (
            "/opt/venv/bin/python -m torch.distributed.run -m train",
            ["/opt/venv/bin/python", "-m", "torch.distributed.run", *RENDEZVOUS, "--nnodes=2",
             "--nproc-per-node=8", "-m", "train"],
        ),
        (
            "apptainer exec image.sif /usr/bin/torchrun train.py",
            ["apptainer", "exec", "image.sif", "/usr/bin/torchrun", *RENDEZVOUS, "--nnodes=2",
             "--nproc-per-node=8", "train.py"],
        ),
        (
            "python -m torch.distributed.launch --use_env train.py --nnodes 7",
            ["python", "-m", "torch.distributed.launch", *RENDEZVOUS, "--nnodes=2",
             "--nproc-per-node=8", "--use_env", "train.py", "--nnodes", "7"],
        ),
        ("python train.py", ["python", "train.py"]),
    ],
)  # fmt: skip
def test_torchrun_is_told_what_the_user_did_not_say(command: str, started: list[str]) -> None:
    """Options of the user stay; a rendezvous of their own is left alone; the script's are not ours."""
    assert with_meeting(command.split(), MEETING) == started


def test_a_command_without_torchrun_is_the_one_rank_of_its_node() -> None:
    """It finds what torch's env:// rendezvous reads; under torchrun that is torchrun's to set."""
    alone = without_torchrun(["python", "train.py"], MEETING)

    assert (alone["RANK"], alone["WORLD_SIZE"], alone["MASTER_PORT"]) == ("1", "2", "23456")
    assert without_torchrun(["torchrun", "train.py"], MEETING) == {}


@pytest.mark.parametrize(
    ("environ", "ranks"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,3"}, 2),
        ({"CUDA_VISIBLE_DEVICES": ""}, 1),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, 1),
        ({"SLURM_GPUS_ON_NODE": "4"}, 4),
        ({}, 1),
    ],
)
def test_one_rank_for_each_gpu_of_the_step(environ: dict[str, str], ranks: int) -> None:
    """GPUs that Slurm gave count, not those that are merely there; without any, one rank."""
    assert ranks_here(environ) == ranks


@pytest.mark.parametrize(
    ("command", "asked", "environ", "said"),
    [
        (["torchrun", "t.py"], None, {}, "1 rank a node: Slurm gave no GPUs"),
        (
            ["torchrun", "t.py"],
            None,
            {"SLURM_GPUS_ON_NODE": "8"},
            "8 ranks a node: one for each GPU",
        ),
        (["torchrun", "t.py"], 4, {}, "4 ranks a node: as --nproc-per-node says"),
        (
            ["torchrun", "--nproc_per_node=2", "t.py"],
            None,
            {},
            "ranks a node as torchrun is told",
        ),
        (["python3", "t.py"], None, {}, "1 process a node: no torchrun in the command"),
    ],
)
def test_it_is_said_how_many_ranks_a_node_has(
    command: list[str], asked: int | None, environ: dict[str, str], said: str
) -> None:
    """Who forgot to ask for GPUs sees it in the first line."""
    assert ranks_in_words(command, asked, environ) == said
