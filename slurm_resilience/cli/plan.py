"""`plan`: how often to save, how early to be told, what is lost, before a run."""

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from slurm_resilience import config
from slurm_resilience.cli.arguments import count, duration, parameters, path, positive, share
from slurm_resilience.cli.printing import print_json
from slurm_resilience.errors import UsageError
from slurm_resilience.plain import plain
from slurm_resilience.planning import measured as earlier
from slurm_resilience.planning.facts import Asked, Measured
from slurm_resilience.planning.findings import Plan, Value
from slurm_resilience.planning.rules import GB, GIB, STATE_BYTES, WEIGHT_BYTES, counted, planned
from slurm_resilience.slurm.connect import connect
from slurm_resilience.story import tell

UNSAID = Asked(nodes=1, gpus_per_node=1)
"""What holds where nothing is said."""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    parser = commands.add_parser(
        "plan",
        help="how often to save, how early to be told, what is lost",
        description="Size of a checkpoint, the best interval (Young-Daly), the lead of --signal,"
        " memory and disk, and how much of the time brings a training forward. What earlier"
        " attempts and checkpoints have shown takes the place of what is worked out.",
    )
    parser.add_argument(
        "--params", type=parameters, metavar="N", help="parameters: 7e9, 7B, 350M"
    )
    parser.add_argument("--optimizer", choices=tuple(STATE_BYTES), default=UNSAID.optimizer)
    parser.add_argument(
        "--precision", choices=tuple(WEIGHT_BYTES), default=UNSAID.precision,
        help="of what is saved; mixed: 16 and 32 bits of each weight; fp32 under autocast or FSDP",
    )  # fmt: skip
    parser.add_argument("--nodes", type=count, metavar="N")
    parser.add_argument("--gpus-per-node", type=count, metavar="N")
    parser.add_argument(
        "--write-gbps", type=positive, metavar="GB/s",
        help="10^9 bytes a second that all nodes together write to where checkpoints lie",
    )  # fmt: skip
    parser.add_argument(
        "--mtbf", type=duration, metavar="TIME",
        help="between two failures of this job as a whole: 8h, 2d",
    )  # fmt: skip
    parser.add_argument(
        "--node-mtbf", type=duration, metavar="TIME",
        help="between two failures of one node: 400d; --nodes of them fail as often more",
    )  # fmt: skip
    parser.add_argument(
        "--startup", type=duration, default=UNSAID.startup_s, metavar="TIME",
        help=f"from the start of an attempt to its first step (default {UNSAID.startup_s:g}s)",
    )  # fmt: skip
    parser.add_argument("--step-s", type=positive, metavar="SECONDS", help="of one step")
    parser.add_argument(
        "--copy-gbps", type=positive, default=UNSAID.copy_gb_per_s, metavar="GB/s",
        help=f"from one GPU to host memory (default {UNSAID.copy_gb_per_s:g})",
    )  # fmt: skip
    parser.add_argument(
        "--slowdown", type=share, default=UNSAID.slowdown, metavar="SHARE",
        help=f"by which training is slower while a save is written (default {UNSAID.slowdown:g})",
    )  # fmt: skip
    parser.add_argument(
        "--gpu-memory-gib", type=positive, default=UNSAID.gpu_memory_gib, metavar="GIB",
        help=f"of one GPU (default {UNSAID.gpu_memory_gib:g})",
    )  # fmt: skip
    parser.add_argument(
        "--keep", type=count, default=UNSAID.keep, metavar="N",
        help=f"checkpoints that are kept (default {UNSAID.keep})",
    )  # fmt: skip
    parser.add_argument(
        "--from-job", metavar="ID", help="take failures and times from a job's attempts"
    )
    parser.add_argument(
        "--checkpoints", type=path, metavar="DIR", help="take size and times from these"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON document and nothing else"
    )
    parser.set_defaults(do=_run)


def _run(arguments: argparse.Namespace) -> int:
    nodes = arguments.nodes
    job = checkpoints = Measured()
    if arguments.from_job is not None:
        job, nodes_of_job = _of_job(arguments.from_job)
        nodes = nodes or nodes_of_job
    if arguments.checkpoints is not None:
        checkpoints = earlier.of_checkpoints(arguments.checkpoints)
    for name, value in (("--nodes", nodes), ("--gpus-per-node", arguments.gpus_per_node)):
        if not value:
            raise UsageError(f"plan: say {name}")
    if arguments.mtbf and arguments.node_mtbf:
        raise UsageError("plan: say --mtbf or --node-mtbf, not both")
    mtbf_s = arguments.node_mtbf / nodes if arguments.node_mtbf else arguments.mtbf
    asked = Asked(
        parameters=arguments.params,
        optimizer=arguments.optimizer,
        precision=arguments.precision,
        nodes=nodes,
        gpus_per_node=arguments.gpus_per_node,
        write_gb_per_s=arguments.write_gbps,
        copy_gb_per_s=arguments.copy_gbps,
        slowdown=arguments.slowdown,
        mtbf_s=mtbf_s,
        startup_s=arguments.startup,
        step_s=arguments.step_s,
        gpu_memory_gib=arguments.gpu_memory_gib,
        keep=arguments.keep,
    )
    try:
        plan = planned(asked, earlier.together(checkpoints, job))
    except ValueError as error:
        raise UsageError(f"plan: {error}") from error
    if arguments.json:
        document = {"asked": asked, "plan": plan}
        print_json(document)
    else:
        print("\n".join(plain(line) for line in _lines(asked, plan)))
    return 0


def _of_job(name: str) -> tuple[Measured, int]:
    """What a job's attempts have shown, and its nodes."""
    settings = config.load()
    job = connect(settings.slurm).job(name)
    if job is None:
        raise UsageError(f"job {name}: Slurm knows it no more; --checkpoints still tells times")
    (story,) = tell(
        [job], as_owner=os.geteuid() == 0, timeout_s=settings.requeue.read_timeout_s
    )
    base = os.environ.get("XDG_STATE_HOME")
    own = Path(base) if base else Path.home() / ".local" / "state"
    # A user's own file is none of root's business.
    folders = [] if os.geteuid() == 0 else [own / "slurm-resilience"]
    ledgers = [folder / "ledger.sqlite" for folder in (Path(settings.paths.state), *folders)]
    return earlier.of_job(story, ledgers, now=time.time()), len(job.nodes) or job.nodes_needed


# ── for people ──────────────────────────────────────────────────────────────────────────────


def _lines(asked: Asked, plan: Plan) -> Iterator[str]:
    yield f"{counted(asked.nodes, 'node')} x {counted(asked.gpus_per_node, 'GPU')}"
    yield ""
    yield "| what | plan | from |"
    yield "|---|---|---|"
    for what, value, shown in _rows(plan):
        yield f"| {what} | {shown(value.value)} | {value.source} |"
    yield ""
    # Rounded down: what is saved earlier is lost no more.
    minutes = math.floor(plan.interval_s.value / 6) / 10
    steps = plan.interval_steps
    every = f"every_steps={steps.value:.0f}, " if steps else ""
    yield f"    #SBATCH --signal=B:USR2@{plan.signal_lead_s.value:.0f}"
    yield f'    Checkpoints("…", {every}every_minutes={minutes:g}, keep={asked.keep})'
    yield f"    init_process_group(timeout=timedelta(seconds={plan.collective_timeout_s.value:.0f}))"
    for warning in plan.warnings:
        yield f"note: {warning}"


def _rows(plan: Plan) -> Iterator[tuple[str, Value, Callable[[float], str]]]:
    yield "checkpoint", plan.checkpoint_bytes, _gb
    yield "a save takes", plan.save_s, _time
    yield "training stands still for", plan.blocked_s, _time
    yield "a save costs", plan.cost_s, _time
    yield "mean time between failures", plan.mtbf_s, _time
    yield "save every", plan.interval_s, _time
    if plan.interval_steps:
        yield "that is, steps", plan.interval_steps, lambda value: f"{value:.0f}"
    yield "recovery", plan.recovery_s, _time
    yield "lost with each failure", plan.lost_per_failure_s, _time
    yield "lost GPU hours a day", plan.lost_gpu_hours_per_day, lambda value: f"{value:.1f}"
    yield "ETTR", plan.ettr, lambda value: f"{100 * value:.1f} %"
    yield "signal lead", plan.signal_lead_s, _time
    yield "collective time-out", plan.collective_timeout_s, _time
    yield (
        "host memory of a node",
        plan.host_memory_bytes,
        lambda value: f"{value / GIB:.0f} GiB",
    )
    yield "disk for checkpoints", plan.disk_bytes, _gb


def _gb(value: float) -> str:
    return f"{value / GB / 1000:.2f} TB" if value >= 1000 * GB else f"{value / GB:.3g} GB"


def _time(value: float) -> str:
    if value < 120:  # noqa: PLR2004 - two minutes
        return f"{value:.3g} s"
    if value < 7200:  # noqa: PLR2004 - two hours
        return f"{value / 60:.1f} min"
    return f"{value / 3600:.1f} h" if value < 2 * 86400 else f"{value / 86400:.1f} d"
