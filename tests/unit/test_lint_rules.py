"""What lint finds: whole scripts by their own word, and each rule with a fault and a near miss."""

import re
from pathlib import Path

import pytest

from slurm_resilience.lint.facts import read
from slurm_resilience.lint.rules import IDS, judge

SCRIPTS = sorted((Path(__file__).parents[1] / "scripts").iterdir())
TEMPLATES = sorted((Path(__file__).parents[2] / "sbatch_templates").iterdir())

SOUND = (
    "--time=24:00:00 --requeue --open-mode=append --signal=B:USR2@300 --output=%j.out"
    " --gpus-per-node=8 --ntasks-per-node=1 --comment=slurm-resilience=runs/%j"
)
RUN = "exec slurm-resilience run -- torchrun train.py"
TRAPPED = "trap 'touch stop' USR2\nsrun torchrun train.py &\n"


def found(options: str, body: str, *, save_s: float | None = None) -> list[str]:
    text = f"#!/bin/bash\n#SBATCH {options}\n{body}\n"
    return [finding.rule for finding in judge(read(text), save_s=save_s)]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_has_the_findings_that_it_names(path: Path) -> None:
    """Each file under tests/scripts says in its second line what is wrong with it."""
    text = path.read_text()
    named = re.search(r"^# finds: (.*)$", text, re.MULTILINE)
    assert named

    rules = [finding.rule for finding in judge(read(text))]

    assert sorted(rules) == [name for name in named[1].split() if name != "nothing"]


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_our_own_templates_are_clean(path: Path) -> None:
    """What we hand out is what we ask for."""
    assert judge(read(path.read_text())) == []


def without(*options: str) -> str:
    return " ".join(word for word in SOUND.split() if word.partition("=")[0] not in options)


ROWS = [
    # rule, options, body of the fault; options, body of the near miss
    ("no-requeue", without("--requeue"), "srun accelerate launch --config_file a.yaml train.py", without("--requeue"), "srun accelerate launch --config_file a.yaml -m tools.evaluate"),
    ("no-requeue", without("--requeue"), "srun accelerate launch retrieval.py", without("--requeue"), "srun accelerate launch run_evals_accelerate.py"),
    ("no-requeue", without("--requeue"), RUN, f"{without('--requeue')} --no-requeue", "srun torchrun train.py"),
    ("no-requeue", without("--requeue"), "srun accelerate launch train.py", f"{without('--requeue', '--time')} -t 30", "srun accelerate launch train.py"),
    ("no-requeue", without("--requeue"), "srun torchrun train.py", without("--requeue"), "srun torchrun tools/eval_model.py"),
    ("no-requeue", without("--requeue"), RUN, f"{without('--requeue')} --no-requeue", RUN),
    ("requeue-forbidden", f"{without('--requeue')} --no-requeue", RUN, SOUND, RUN),
    ("requeue-forbidden", f"{SOUND} --no-requeue", RUN, f"{without('--requeue')} --no-requeue --requeue", RUN),
    ("takes-no-part", without("--comment"), RUN, without("--comment"), "srun torchrun train.py"),
    ("takes-no-part", f"{SOUND} --comment='for the slurm-resilience-talk'", RUN, f"{SOUND} --comment='a slurm-resilience'", RUN),
    ("truncated-output", without("--open-mode"), RUN, SOUND, RUN),
    ("truncated-output", f"{without('--open-mode')} --open-mode=truncate", RUN, f"{without('--open-mode')} --open-mode=a", RUN),
    ("no-time-limit", without("--time"), RUN, f"{without('--time')} -t 5-0", RUN),
    ("shared-output", f"{SOUND} -o train.log", RUN, f"{SOUND} -o %A_%a.log", RUN),
    ("shared-output", f"{SOUND} -e %x.err", RUN, f"{SOUND} -e /dev/null", RUN),
    ("variable-in-directive", f"{SOUND} --output=$HOME/%j.out", RUN, f"{SOUND} --comment='$x slurm-resilience'", RUN),
    ("unread-directive", SOUND, f"cd work\n#SBATCH --mem=0\n{RUN}", SOUND, f"##SBATCH --mem=0\n# SBATCH\n{RUN}"),
    ("unread-directive", SOUND, f"  #SBATCH --mem=0\n{RUN}", SOUND, f"#SBATCH --mem=0\n{RUN}"),
    ("signal-past-run", f"{SOUND} --signal=USR2@300", f"{RUN.removeprefix('exec ')}\necho done", SOUND, RUN),
    ("no-signal", without("--signal"), RUN, without("--signal"), "srun torchrun train.py --exit-duration-in-mins 1190"),
    ("signal-past-run", f"{SOUND} --signal=USR2@300", RUN, SOUND, RUN),
    ("run-without-exec", SOUND, RUN.removeprefix("exec "), SOUND, RUN),
    ("run-without-exec", without("--signal"), RUN.removeprefix("exec "), without("--signal"), f"trap 'kill -USR2 $!' USR2\n{RUN.removeprefix('exec ')} &\nwait; wait"),
    ("signal-not-trapped", SOUND, "srun torchrun train.py", SOUND, "trap : USR2\nsrun torchrun train.py & wait; wait"),
    ("term-not-trapped", f"{SOUND} --signal=B:TERM@60", "srun python train.py", f"{SOUND} --signal=B:TERM@60", "exec srun python train.py"),
    ("foreground-under-trap", SOUND, "trap 'touch stop' SIGUSR2\nsrun torchrun train.py", SOUND, f"{TRAPPED}while kill -0 $!; do wait $!; done"),
    ("foreground-under-trap", "--signal=B:USR1@60", "trap save USR1\nsrun hostname\nsrun ./simulate", "--signal=B:USR1@60", "trap save USR1\nsrun hostname\nsrun ./simulate &\nwait; wait"),
    ("signal-not-trapped", "--signal=B:USR1@60", "srun ./simulate", "--signal=USR1@60", "srun ./simulate"),
    ("single-wait", SOUND, f"{TRAPPED}wait", SOUND, f"{TRAPPED}until ! kill -0 $!; do\n  wait\ndone"),
    ("single-wait", SOUND, TRAPPED, SOUND, "end() { touch stop; wait; }\ntrap end 12\nsrun torchrun train.py & wait"),
    ("signal-kills-torchrun", f"{SOUND} --signal=USR1@60", "srun torchrun train.py", f"{SOUND} --signal=TERM@60", "srun torchrun train.py"),
    ("signal-kills-torchrun", f"{SOUND} --signal=10@60", "srun bash -lc 'torchrun train.py'", f"{SOUND} --signal=USR1", "srun torchrun --signals-to-handle=SIGTERM,SIGUSR1 train.py"),
    ("torchrun-per-task", f"{without('--signal')} --ntasks-per-node=8", "srun torchrun train.py --exit-duration-in-mins 9", f"{without('--signal')} --ntasks-per-node=8", "srun --ntasks-per-node=1 torchrun train.py --exit-duration-in-mins 9"),
    ("first-node-only", f"{SOUND} -N2", "exec torchrun --signals-to-handle=USR2 train.py", f"{SOUND} -N2", RUN),
    ("first-node-only", f"{SOUND} -N2-4", "exec torchrun --signals-to-handle=USR2 train.py", f"{SOUND} -N2", "go() { torchrun train.py; }\nexport -f go\nexec srun bash -c go"),
    ("first-node-only", f"{SOUND} -N2", "python -m slurm_resilience.tool run\ntorchrun train.py", f"{SOUND} -N2", "exec python -m slurm_resilience run -- torchrun train.py"),
    ("each-node-alone", f"{SOUND} -N2", RUN.replace("torchrun", "accelerate launch"), f"{SOUND} -N2", RUN.replace("torchrun", "python -m torch.distributed.launch")),
    ("each-node-alone", f"{SOUND} -N2", RUN.replace("torchrun", "deepspeed"), SOUND, RUN.replace("torchrun", "deepspeed")),
    ("each-node-alone", f"{SOUND} -N2", RUN.replace("torchrun", "ft_launcher"), f"{SOUND} -N2", RUN.replace("torchrun", "ft_launcher --rdzv_endpoint=$HEAD:$PORT")),
    ("each-node-alone", f"{SOUND} -N2", RUN.replace("torchrun", "accelerate launch --num_machines 2"), f"{SOUND} -N2", RUN.replace("torchrun", "accelerate launch --config_file a.yaml")),
    ("ranks-not-gpus", f"{without('--gpus-per-node')} --gres=nvme:1,gpu:8", RUN.replace("train.py", "--nproc-per-node 1 train.py"), f"{without('--gpus-per-node')} --gres=nvme:1,gpu:8", RUN.replace("train.py", "--nproc-per-node 8 train.py")),
    ("ranks-not-gpus", f"{without('--gpus-per-node')} --gres=gpu:a:4(S:0-1),gpu:b:4", RUN.replace("train.py", "--nproc-per-node 4 train.py"), f"{without('--gpus-per-node')} --gres=gpu:a:4(S:0-1),gpu:b:4", RUN.replace("train.py", "--nproc-per-node 8 train.py")),
    ("ranks-not-gpus", f"{SOUND} -N1", "exec srun --gpus=4 torchrun --nproc-per-node=8 train.py", f"{SOUND} -N1", "srun --gpus=4 torchrun --nproc-per-node=4 train.py\nsrun -G4 torchrun --nproc-per-node=4 train.py"),
    ("ranks-not-gpus", SOUND, "torchrun --nproc-per-node=4 train.py &\nwait", SOUND, "CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc-per-node=4 train.py a &\nCUDA_VISIBLE_DEVICES=4,5,6,7 torchrun --nproc-per-node=4 train.py b &\nwait"),
    ("ranks-not-gpus", SOUND, "srun torchrun --nproc-per-node=4 train.py", SOUND, "for half in 0 1; do\n  srun torchrun --nproc-per-node=4 train.py &\ndone\nwait"),
    ("ranks-not-gpus", SOUND, f"{RUN.replace('train.py', '--nproc-per-node 4 train.py')}", SOUND, f"{RUN.replace('train.py', '--nproc-per-node gpu train.py')}"),
    ("ranks-not-gpus", f"{SOUND} --ntasks-per-node=4", "exec srun python train.py", f"{SOUND} --ntasks-per-node=8", "exec srun python train.py"),
    ("ranks-not-gpus", f"{SOUND} -N 2", "exec srun accelerate launch --signals-to-handle USR2 --num_processes=8 train.py", f"{SOUND} -N 2", "exec srun accelerate launch --signals-to-handle USR2 --num_processes=16 train.py"),
    ("fixed-port", SOUND, "PORT=29500\nexec srun torchrun --signals-to-handle=USR2 --rdzv_endpoint=$HEAD:$PORT train.py", SOUND, "PORT=$((9000 + SLURM_JOB_ID % 999))\nexec srun torchrun --signals-to-handle=USR2 --rdzv_endpoint=$HEAD:$PORT train.py"),
    ("fixed-port", SOUND, "export MASTER_PORT=${MASTER_PORT:-12355}\nexec srun python train.py", SOUND, f"export MASTER_PORT=12355\n{RUN}"),
    ("array-requeue", f"{SOUND} -a 1-9", f"again() {{ scontrol requeuehold ${{SLURM_JOBID}}; }}\n{RUN}", f"{SOUND} -a 1-9", f"# scontrol requeue $SLURM_JOB_ID\n{RUN}"),
    ("array-requeue", f"{SOUND} -a 1-9", f"scontrol requeue $SLURM_JOB_ID\n{RUN}", SOUND, f"scontrol requeue $SLURM_JOB_ID\n{RUN}"),
    ("resubmits-itself", SOUND, f'sbatch --dependency=afterany:$SLURM_JOB_ID "$0"\n{RUN}', SOUND, f"sbatch next.sbatch\n{RUN}"),
    ("unknown-nccl-variable", SOUND, f"export NCCL_TIMEOUT=1800\n{RUN}", SOUND, f"export NCCL_FASTRAK_LLCM_DEVICE=x\n{RUN}"),
    ("unknown-nccl-variable", SOUND, f"export NCCL_SOKET_IFNAME=ib0\n{RUN}", SOUND, f"export NCCL_SOCKET_IFNAME=ib0\n{RUN}"),
    ("unknown-nccl-variable", SOUND, f"export NCCL_DEBUGG=INFO\n{RUN}", SOUND, f"export NCCL_TEST_PATH=/opt/tests\n{RUN}"),
    ("watch-switched-off", SOUND, f"declare -x TORCH_NCCL_ASYNC_ERROR_HANDLING=0\n{RUN}", SOUND, f"export TORCH_NCCL_ASYNC_ERROR_HANDLING=1\n{RUN}"),
    ("short-timeout", SOUND, f"export TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=60\n{RUN}", SOUND, f"export TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600\n{RUN}"),
    ("short-timeout", SOUND, f"export NCCL_IB_TIMEOUT=14\n{RUN}", SOUND, f"export NCCL_IB_TIMEOUT=22\n{RUN}"),
    ("short-timeout", SOUND, f"{RUN} --distributed-timeout-minutes 5", SOUND, f"{RUN} --distributed-timeout-minutes 10"),
    ("long-timeout", SOUND, "exec srun python train.py --ddp_timeout 180000", SOUND, f"{RUN} --ddp_timeout 180000"),
    ("tcp-only", f"{SOUND} -N2", f"export NCCL_IB_DISABLE=1\n{RUN}", SOUND, f"export NCCL_IB_DISABLE=1\n{RUN}"),
    ("tcp-only", f"{SOUND} -N2", f"export NCCL_NET=Socket\n{RUN}", f"{SOUND} -N2", f"export NCCL_IB_DISABLE=1 FI_PROVIDER=efa\n{RUN}"),
    ("loopback-interface", f"{SOUND} -N2", f"export GLOO_SOCKET_IFNAME=lo\n{RUN}", f"{SOUND} -N2", f"export NCCL_SOCKET_IFNAME=^lo,docker0\n{RUN}"),
    ("checkpoint-on-node", SOUND, f"{RUN} --save /tmp/ckpt", SOUND, f"{RUN} --save /tmpfast/ckpt"),
    ("checkpoint-on-node", SOUND, f"{RUN} --output_dir /tmp/ckpt", SOUND, f"{RUN} --output_dir=/tmp/logs --save_dir=/shared/ckpt"),
    ("checkpoint-on-node", SOUND, f"{RUN} --output_dir=$TMPDIR/ckpt", SOUND, f"{RUN} --output_dir /shared/out"),
    ("checkpoint-on-node", SOUND, f"CKPT_DIR=$TMPDIR/ckpt\n{RUN} --save $CKPT_DIR", SOUND, f"CKPT_DIR=/tmp/ckpt\nrsync -a /tmp/ckpt /fast &\n{RUN}"),
    ("checkpoint-with-data", SOUND, f"DATA_DIR=/lustre/sets\n{RUN} --save /lustre/sets/ckpt", SOUND, f"DATA_DIR=/lustre/sets\n{RUN} --save /lustre/sets-ckpt"),
    ("no-directives", "", RUN, SOUND, RUN),
    ("unknown-ignore", SOUND, f"# slurm-resilience: ignore=fixed-prot\n{RUN}", SOUND, f"# slurm-resilience: ignore=fixed-port\n{RUN}"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "options", "body", "better_options", "better_body"),
    ROWS,
    ids=[f"{number}-{row[0]}" for number, row in enumerate(ROWS)],
)
def test_a_rule_finds_its_fault_and_leaves_the_near_miss_alone(
    rule: str, options: str, body: str, better_options: str, better_body: str
) -> None:
    """One thing wrong, one finding; what looks like it and is right, none of that rule."""
    if rule == "no-directives":
        assert [one.rule for one in judge(read(f"#!/bin/bash\n{body}\n"))] == [rule]
    else:
        assert rule in found(options, body)
    assert rule not in found(better_options, better_body)


def test_every_rule_has_a_row() -> None:
    """A rule without a fault to show is not tested."""
    elsewhere = {"no-interpreter", "dos-line-ends", "short-lead"}

    assert {row[0] for row in ROWS} | elsewhere == IDS


@pytest.mark.parametrize(
    ("save_s", "rules"), [(None, []), (120.0, []), (150.0, []), (151.0, ["short-lead"])]
)
def test_the_lead_is_judged_by_a_measured_save(save_s: float | None, rules: list[str]) -> None:
    """Nothing is guessed where no save was measured."""
    assert found(SOUND, RUN, save_s=save_s) == rules


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", []),
        ("\n", ["no-interpreter"]),
        ("echo hello\n", ["no-interpreter"]),
        ("#!/bin/bash\r\necho hello\r\n", ["dos-line-ends"]),
        ("#!/bin/bash", []),
    ],
    ids=["empty", "blank", "no first line", "DOS", "nothing in it"],
)
def test_what_sbatch_refuses_is_found(text: str, rules: list[str]) -> None:
    """The two things that sbatch says only at submission."""
    assert [finding.rule for finding in judge(read(text))] == rules


def test_a_comment_in_the_file_silences_a_rule() -> None:
    """Any of several, anywhere in the file."""
    body = f"# slurm-resilience: ignore=no-requeue,truncated-output\n{RUN}"

    assert found(without("--requeue", "--open-mode"), body) == []


@pytest.mark.parametrize(
    ("handed", "is_itself"),
    [
        ("b2.sbatch", True), ("./b2.sbatch", True), ("/proj/b2.sbatch", True),
        ('"$SLURM_SUBMIT_DIR/b2.sbatch"', True), ("-N2 --time=3-0 b2.sbatch 1 2", True),
        ("next.sbatch", False), ("next.sbatch b2.sbatch", False), ("../two/b2.sbatch", False),
        ("/other/b2.sbatch", False), ("--job-name b2.sbatch next.sbatch", False), ("", False),
    ],
)  # fmt: skip
def test_a_script_that_submits_itself_by_its_name_is_found(
    handed: str, *, is_itself: bool
) -> None:
    """Not one of the same name elsewhere; without a file there is no name."""
    text = f"#!/bin/bash\n#SBATCH {SOUND}\n{RUN}\nsbatch {handed}\n"

    of_file, of_text = (
        [one.rule for one in judge(read(text, file=file))] for file in ("/proj/b2.sbatch", "")
    )

    assert ("resubmits-itself" in of_file) == is_itself
    assert "resubmits-itself" not in of_text


def test_every_line_that_sbatch_does_not_read_is_named() -> None:
    """With a blank before it, or behind the first command; of very many the first ones."""
    more = "".join(f"#SBATCH --mem={number}\n" for number in range(99))
    text = f"#!/bin/bash\n#SBATCH {SOUND}\n #SBATCH --requeue\n{RUN}\n#SBATCH -c 8\n{more}"

    found = [one.line for one in judge(read(text)) if one.rule == "unread-directive"]

    assert found[:3] == [3, 5, 6]
    assert len(found) == 20


def test_a_name_that_silences_nothing_is_said_once() -> None:
    """However often it stands there."""
    names = ",".join(["a"] * 400_000)
    others = ",".join(f"b{number}" for number in range(1000))
    text = f"#!/bin/bash\n# slurm-resilience: ignore={names}\n# slurm-resilience: ignore={others}\n"

    found = [one.message for one in judge(read(text)) if one.rule == "unknown-ignore"]

    assert found[:2] == ["ignore=a names no rule", "ignore=b0 names no rule"]
    assert len(found) == 20
