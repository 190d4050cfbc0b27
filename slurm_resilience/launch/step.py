"""
The one srun of an attempt: one agent a node, each with all that the job has on its node.

srun takes its defaults from the environment, and a batch script's `#SBATCH` lines are in it: a
job with eight tasks a node and one GPU a task would get an agent that sees one GPU and one core.
Those inputs are taken out; what the step needs stands in argv.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from slurm_resilience.errors import LaunchError
from slurm_resilience.watch.output import Relay
from slurm_resilience.watch.processes import shell_status

LAYOUT = (
    "SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_TRES_PER_TASK", "SLURM_GPUS_PER_TASK",
    "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_TRES",
    "SLURM_TASKS_PER_NODE", "SLURM_DISTRIBUTION", "SLURM_CPU_BIND", "SLURM_GPU_BIND",
    "SLURM_MEM_BIND", "SLURM_TRES_BIND", "SLURM_EXACT", "SLURM_CORE_SPEC", "SLURM_THREAD_SPEC",
    "SLURM_HINT", "SLURM_THREADS_PER_CORE", "SLURM_ARBITRARY", "SLURM_HOSTFILE",
    "SLURM_KILL_BAD_EXIT", "SLURM_WAIT", "SLURM_EXPORT_ENV", "SLURM_MULTI_PROG",
    "SLURM_LABELIO", "SLURM_UNBUFFEREDIO", "SLURM_STDINMODE", "SLURM_STDOUTMODE",
    "SLURM_STDERRMODE",
)  # fmt: skip
"""Inputs of srun that would change where the agents run, what they get, or where they write."""
GPUS_BY_TASK = ("SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU", "SLURM_TRES_PER_TASK")
"""With these a step of one task a node gets the GPUs of one task, also when they are taken out
of the environment: the job itself remembers (seen on 22.05)."""
LAST_OUTPUT_S = 2.0


def srun_command(
    nodes: int, agent: Sequence[str], environ: Mapping[str, str], *, bin_dir: str = ""
) -> list[str]:
    """
    The command that starts *agent* once on each of the job's *nodes*, from a batch script.

    *bin_dir*: where srun lies; empty: PATH.
    """
    gpus = environ.get("SLURM_GPUS_ON_NODE")
    by_task = gpus and any(name in environ for name in GPUS_BY_TASK)
    return [
        f"{bin_dir}/srun" if bin_dir else "srun",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",
        "--ntasks-per-node=1",
        # Without --exact and --cpus-per-task a step gets all CPUs of the job on each node;
        # unbound, so that the ranks share them all.
        "--cpu-bind=none",
        "--gpu-bind=none",
        *([f"--gpus-per-node={gpus}"] if by_task else []),
        "--export=ALL",
        "--input=none",
        "--mpi=none",
        "--job-name=slurm-resilience",
        # The supervisor ends the step: first it hears how each node ended.
        "--kill-on-bad-exit=0",
        "--wait=0",
        *agent,
    ]


def step_environment(environ: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """The environment of srun, and through it of the agents."""
    kept = {name: value for name, value in environ.items() if name not in LAYOUT}
    return {**kept, **more}


def kept_from_srun(environ: Mapping[str, str]) -> dict[str, str]:
    """What `step_environment` leaves out: the ranks get it back."""
    return {name: environ[name] for name in LAYOUT if name in environ}


class Step:
    """A running srun."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start it; `LaunchError` where there is no srun."""
        source, sink = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - srun, found as Slurm's users find it
                command, env=environ, stdin=subprocess.DEVNULL, stderr=sink
            )
        except OSError as error:
            os.close(source)
            raise LaunchError(f"{command[0]}: {error.strerror}; is Slurm in PATH?") from error
        finally:
            os.close(sink)
        self._stderr = Relay(source, sys.stderr.fileno())

    def poll(self) -> int | None:
        """Its status as a shell tells it, None while it runs."""
        code = self._process.poll()
        return None if code is None else shell_status(code)

    def lines(self) -> tuple[str, ...]:
        """The last lines that srun and Slurm's own processes wrote (the ranks' among them)."""
        self._stderr.finish(LAST_OUTPUT_S)
        return tuple(
            line for line in self._stderr.lines() if line.startswith(("srun:", "slurmstepd"))
        )

    def terminate(self) -> None:
        """Make srun end the step, with KILL."""
        self._process.terminate()

    def kill(self) -> None:
        """Give srun up: a node does not answer it any more."""
        self._process.kill()
