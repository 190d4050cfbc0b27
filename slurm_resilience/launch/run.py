"""`slurm-resilience run`: from the batch script's line to its exit status."""

import logging
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from slurm_resilience.config import Config
from slurm_resilience.errors import LaunchError, SlurmError, UsageError
from slurm_resilience.launch import job as this_job
from slurm_resilience.launch import place, rendezvous
from slurm_resilience.launch.ending import Ending
from slurm_resilience.launch.hub import Hub
from slurm_resilience.launch.job import ThisJob
from slurm_resilience.launch.records import RECORD_S, Records
from slurm_resilience.launch.step import Step, kept_from_srun, srun_command, step_environment
from slurm_resilience.launch.supervisor import Doors, Supervisor
from slurm_resilience.signals import caught
from slurm_resilience.slurm.connect import connect
from slurm_resilience.slurm.door import Slurm
from slurm_resilience.slurm.values import Job
from slurm_resilience.watch.assignment import Assignment, to_environment
from slurm_resilience.watch.torchrun import ranks_in_words

log = logging.getLogger(__name__)


class Wishes(msgspec.Struct, frozen=True):
    """What the command line asks for."""

    run_directory: Path | None = None
    ranks_per_node: int | None = None
    stall_s: float | None = None


def run(
    command: Sequence[str], wishes: Wishes, environ: Mapping[str, str], config: Config
) -> int:
    """Run *command* on all nodes of this job, watched; the batch script's exit status."""
    this = this_job.read(environ)
    _check(command, environ)
    config = _wished(config, wishes)
    slurm = connect(config.slurm)
    known = _known(slurm, this)
    directory = place.choose(wishes.run_directory, known, this)
    place.make(directory, this.attempt)
    if known is not None:
        place.announce(directory, known, slurm)
    place.warn_where_local(directory, this)
    nodes = known.nodes if known else ()
    log.info(
        "attempt %d of job %s on %s: %s; %s; records in %s",
        this.attempt, this.id, ",".join(nodes) or f"{this.nodes} nodes", " ".join(command),
        ranks_in_words(command, wishes.ranks_per_node, environ), directory,
    )  # fmt: skip
    with caught(signal.SIGTERM, signal.SIGINT, signal.SIGUSR2) as flags:
        records = Records(directory, this.attempt)
        hub = Hub(secrets.token_hex())
        assignment = Assignment(
            job=this.id,
            attempt=this.attempt,
            nodes=this.nodes,
            token=hub.token,
            supervisor_port=hub.port,
            meeting_port=_meeting_port(this, environ, config),
            meeting_address=environ.get("MASTER_ADDR", ""),
            attempt_directory=str(records.attempt_directory),
            ranks_per_node=wishes.ranks_per_node,
            saved_step=records.saved_before(this.attempt, job=this.id, wait_s=RECORD_S),
            ends_at=known.ends_at if known else None,
            settings=config.watch,
            job_variables=kept_from_srun(environ),
        )
        agent = [sys.executable, "-m", "slurm_resilience", "agent", "--", *command]
        more = to_environment(assignment)
        srun = srun_command(this.nodes, agent, environ, bin_dir=config.slurm.bin_dir)
        step = Step(srun, step_environment(environ, more))
        doors = Doors(hub, step, records, flags)
        outcome = Supervisor(this, nodes, config.watch, doors).run()
        hub.close()
        return Ending(this, config, slurm, records, flags).status(outcome)


def _check(command: Sequence[str], environ: Mapping[str, str]) -> None:
    if not command:
        raise UsageError("no command: slurm-resilience run -- torchrun train.py …")
    path = environ.get("PATH")
    if shutil.which(command[0], path=path) is None:
        if shutil.which(command[0], mode=os.F_OK, path=path) is None:
            raise LaunchError(
                f"{command[0]}: not found on this node; activate its environment in the batch"
                " script"
            )
        raise LaunchError(
            f"{command[0]}: is no program (not executable); a script needs its interpreter"
            f" before it: python {command[0]}"
        )


def _wished(config: Config, wishes: Wishes) -> Config:
    if wishes.stall_s is None:
        return config
    watch = msgspec.structs.replace(config.watch, stall_s=wishes.stall_s)
    return msgspec.structs.replace(config, watch=watch)


def _known(slurm: Slurm, this: ThisJob) -> Job | None:
    try:
        return slurm.job(this.id)
    except SlurmError as error:
        log.warning("Slurm does not tell about job %s, going on without: %s", this.id, error)
        return None


def _meeting_port(this: ThisJob, environ: Mapping[str, str], config: Config) -> int:
    asked = environ.get("MASTER_PORT", "")
    if asked.isdecimal():
        if rendezvous.is_free(int(asked)):
            return int(asked)
        log.warning("MASTER_PORT=%s is in use on this node; taking another", asked)
    ephemeral = rendezvous.ephemeral_range(Path(config.paths.proc))
    return rendezvous.free_port(rendezvous.candidates(this.number, this.attempt, ephemeral))
