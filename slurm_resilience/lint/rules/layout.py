"""Rules about how ranks are laid out over nodes, tasks and GPUs, and how they meet."""

import re
from collections.abc import Iterator
from posixpath import basename, split

from slurm_resilience.lint import asked
from slurm_resilience.lint.facts import Command
from slurm_resilience.lint.findings import Finding, Replace
from slurm_resilience.lint.launches import Launch
from slurm_resilience.lint.options import Option, parse
from slurm_resilience.lint.rules.rule import Rule
from slurm_resilience.lint.view import View
from slurm_resilience.watch.torchrun import after_torchrun

_REQUEUE = re.compile(r"scontrol\s+requeue(?:hold)?\s+[^;&|#]*?(\"?\$\{?SLURM_JOB_?ID\}?\"?)")
_ARRAY_TASK = '"${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"'
_PORT_OPTIONS = ("master-port", "main-process-port")
_ENDPOINT_OPTIONS = ("rdzv-endpoint",)
_TELLS_OF_OTHERS = (*_ENDPOINT_OPTIONS, "machine-rank", "config-file", "node-rank")
"""A launcher that is told these knows, or may know, of the other nodes."""
_ONE_OF = (
    frozenset({"ntasks", "ntasks-per-node"}),
    frozenset({"gpus", "gpus-per-node", "gpus-per-task", "gres"}),
)
"""Where a step asks by one of these, what the script says by another counts no more."""
_HERE = frozenset({"", ".", "$PWD", "${PWD}", "$SLURM_SUBMIT_DIR", "${SLURM_SUBMIT_DIR}"})
"""The folder that a script is submitted from, as scripts write it."""
_OWN_LAUNCHERS = {"torchrun", "accelerate"}


def torchrun_per_task(view: View) -> Iterator[Finding]:
    """torchrun starts a node's ranks by itself: one task a node is enough."""
    for launch in view.launches:
        if launch.kind not in _OWN_LAUNCHERS or launch.supervised:
            continue
        tasks = _step_tasks(view, launch)
        if tasks is not None and tasks > 1 and launch.value("nproc-per-node") != "1":
            yield Finding(
                "torchrun-per-task",
                launch.line,
                f"srun starts {tasks} tasks on each node, each with a {launch.kind} of its own",
                "say --ntasks-per-node=1",
            )
            return


def first_node_only(view: View) -> Iterator[Finding]:
    """The batch script runs on the first node; only srun (or ssh, mpirun) reaches the others."""
    nodes = view.nodes
    if nodes is None or nodes < 2:  # noqa: PLR2004 - more than one
        return
    called = {word for command in view.script.commands for word in command.words[1:]}
    for launch in view.training:
        command = launch.command
        brought = (
            command.step is not None
            or launch.supervised
            or launch.is_remote
            or launch.kind == "deepspeed"
            or (command.function and any(command.function in word for word in called))
        )
        if not brought:
            yield Finding(
                "first-node-only",
                launch.line,
                f"{nodes} nodes are asked for, and this runs on the first of them alone",
                "start it with srun, or with exec slurm-resilience run -- …",
            )
            return


def each_node_alone(view: View) -> Iterator[Finding]:
    """`slurm-resilience run` tells torchrun where to meet; other launchers have to be told."""
    launch, nodes = view.supervised, view.nodes
    if launch is None or nodes is None or nodes < 2:  # noqa: PLR2004 - more than one
        return
    if launch.kind == "python" or after_torchrun(launch.command.words) is not None:
        return
    if not any(launch.has(name) for name in _TELLS_OF_OTHERS):
        yield Finding(
            "each-node-alone",
            launch.line,
            f"{nodes} nodes each start {launch.kind} by itself: slurm-resilience run tells only"
            " torchrun of the others",
            "start the training with torchrun",
        )


def ranks_not_gpus(view: View) -> Iterator[Finding]:
    """More ranks than GPUs fail; fewer leave GPUs idle, unless something else beside them has these."""
    if any(launch.command.background for launch in view.training) and (
        len(view.training) > 1 or any(launch.command.in_loop for launch in view.training)
    ):
        return
    for launch in view.training:
        options = _step_options(view, launch)
        gpus = asked.gpus_per_node(options)
        ranks, said = _ranks(view, launch)
        if gpus and ranks and ranks != gpus:
            yield Finding(
                "ranks-not-gpus",
                launch.line,
                f"{said}: {ranks} ranks on a node that gives {gpus} GPU{'s' * (gpus > 1)}",
                "let both be the same; slurm-resilience run counts the GPUs itself",
            )
            return


def fixed_port(view: View) -> Iterator[Finding]:
    """A port that every job takes."""
    if not view.training:
        return
    for launch in view.training:
        for name in (*_PORT_OPTIONS, *_ENDPOINT_OPTIONS):
            value = launch.value(name) or ""
            found = re.fullmatch(r"(?:.*:)?(\d{2,5})", value, re.DOTALL)
            if found and (name in _PORT_OPTIONS or ":" in value):
                yield _fixed(launch.line, f"--{name} ends in {found[1]}")
                return
    for one in view.script.assignments:
        if one.name == "MASTER_PORT" and one.value.isdecimal() and not view.supervised:
            yield _fixed(one.line, f"MASTER_PORT={one.value}")
            return


def array_requeue(view: View) -> Iterator[Finding]:
    """The raw id of an array's last task is the array's own."""
    if not view.says("array"):
        return
    for number, line in enumerate(view.script.lines, 1):
        found = None if line.lstrip().startswith("#") else _REQUEUE.search(line)
        if found:
            better = view.line(number)
            better = better[: found.start(1)] + _ARRAY_TASK + better[found.end(1) :]
            in_quotes = (
                line[: found.start()].count('"') % 2 or line[: found.start()].count("'") % 2
            )
            yield Finding(
                "array-requeue",
                number,
                f"requeues by {found[1]}: of an array's last task that is the id of the whole array",
                f"scontrol requeue {_ARRAY_TASK}",
                None if in_quotes else Replace(number, better),
            )
            return


def resubmits_itself(view: View) -> Iterator[Finding]:
    """A new job id knows nothing of the old one."""
    for command in view.script.commands:
        if command.name == "sbatch" and _submits(command, view.script.file):
            yield Finding(
                "resubmits-itself",
                command.line,
                "submits itself again: a new job, without the count of attempts and the excluded nodes",
                "use --requeue, and exec slurm-resilience run -- …",
            )
            return


def _submits(sbatch: Command, file: str) -> bool:
    """Whether it is handed the script that it stands in, by whatever name."""
    if any(word in {"$0", "${0}", "$BASH_SOURCE"} for word in sbatch.words[1:]):
        return True
    words = [(word, sbatch.line) for word in sbatch.words[1:]]
    named = parse(words, tool="sbatch").rest[:1]
    folder, name = split(named[0]) if named else ("", "")
    return bool(name) and name == basename(file) and (folder in _HERE or named[0] == file)


def _step_options(view: View, launch: Launch) -> tuple[Option, ...]:
    step = launch.command.step or ()
    asks = {option.name for option in step}
    replaced = {name for group in _ONE_OF for name in group if asks & group}
    return (*(one for one in view.script.options if one.name not in replaced), *step)


def _step_tasks(view: View, launch: Launch) -> int | None:
    if launch.command.step is None:
        return None
    return asked.tasks_per_node(_step_options(view, launch))


def _ranks(view: View, launch: Launch) -> tuple[int | None, str]:
    """Ranks on each node, and what says so."""
    if launch.kind == "torchrun":
        value = launch.value("nproc-per-node") or ""
        return asked.whole(value), f"--nproc-per-node={value}"
    if launch.kind == "accelerate":
        value, nodes = launch.value("num-processes") or "", view.nodes or 1
        total = asked.whole(value) or 0
        spread = total // nodes if total and total % nodes == 0 else None
        return spread, f"--num_processes={value}"
    if launch.kind == "python" and not launch.supervised:
        tasks = _step_tasks(view, launch) or 0
        return (tasks if tasks > 1 else None), f"{tasks} tasks a node"
    return None, ""


def _fixed(line: int, what: str) -> Finding:
    return Finding(
        "fixed-port",
        line,
        f"{what}, for every job and every attempt",
        "derive it from $SLURM_JOB_ID, or leave it to slurm-resilience run",
    )


RULES = (
    Rule(
        "torchrun-per-task", torchrun_per_task,
        "every torchrun starts all of a node's ranks: several of them fight for GPUs and ports",
        "`--ntasks-per-node=1`",
    ),
    Rule(
        "first-node-only", first_node_only,
        "the other nodes are paid for and idle, or the first waits for them until its time-out",
        "`srun`, or `exec slurm-resilience run`",
    ),
    Rule(
        "each-node-alone", each_node_alone,
        "`slurm-resilience run` starts the command once on each node; a launcher that is not told of the"
        " other nodes trains a copy of the model on each",
        "`torchrun`, which it does tell",
    ),
    Rule(
        "ranks-not-gpus", ranks_not_gpus,
        'more ranks than GPUs fail at the start ("invalid device ordinal"); fewer leave GPUs idle',
        "the same number in both places",
    ),
    Rule(
        "fixed-port", fixed_port,
        "another job on the node, or what is left of the last attempt, has the port:"
        " EADDRINUSE, or ranks of two jobs meet",
        "a port derived from the job id; `slurm-resilience run` does that",
    ),
    Rule(
        "array-requeue", array_requeue,
        "the raw id of an array's last task is the array's own: all its tasks are put back, running ones too",
        "`${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}`", safe=True,
    ),
    Rule(
        "resubmits-itself", resubmits_itself,
        "a job that fails at once submits itself for ever, and lands on the same bad node",
        "`--requeue` with `exec slurm-resilience run`",
    ),
)  # fmt: skip
