"""Slurm through its own commands. The only module that knows `sh`."""

import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import sh

from slurm_resilience.errors import SlurmError, SlurmSilentError, UsageError
from slurm_resilience.slurm.configuration import read_configuration
from slurm_resilience.slurm.reading import read_jobs, read_nodes
from slurm_resilience.slurm.values import Job, Node

# It tells of every process it starts.
logging.getLogger("sh").setLevel(logging.WARNING)

FALLBACKS = ("/usr/bin", "/usr/local/bin", "/opt/slurm/bin")
"""Looked at after PATH, of which a hook of slurmd has none."""

_KEPT = ("SLURM_CONF", "SLURM_JWT", "LD_LIBRARY_PATH")
_JOB = re.compile(r"[0-9]+(_[0-9]+)?")
_NODE = re.compile(r"(?!all$)[a-z0-9][a-z0-9._-]*", re.IGNORECASE)
_VERSION = re.compile(r"\b(\d+)\.(\d+)\.")
_NODES_AS_JSON = (23, 2)
SILENT = re.compile(
    r"timed out|Unable to contact|Unexpected message received|Zero Bytes|Connection refused",
    re.IGNORECASE,
)


class Commands:
    """
    Slurm through `squeue`, `sinfo` and `scontrol` of 22.05 or later.

    Each call runs in an environment of its own (a user's SQUEUE_FORMAT or SLURM_CLUSTERS would
    change the answers) and is killed after *timeout_s* seconds.
    """

    def __init__(self, *, bin_dir: str = "", timeout_s: float = 10.0) -> None:
        self._directories = [bin_dir] if bin_dir else [*_search_path(), *FALLBACKS]
        self._timeout_s = timeout_s
        self._environment = {
            "PATH": os.pathsep.join(
                [*self._directories, *FALLBACKS, "/bin"]
            ),  # some are scripts
            "LC_ALL": "C",
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
        }
        self._version: tuple[int, int] | None = None

    def version(self) -> tuple[int, int]:
        """Slurm's year and month, for example (22, 5)."""
        if self._version is None:
            text = self._run("scontrol", "--version").decode("utf-8", "replace")
            found = _VERSION.search(text)
            if not found:
                raise SlurmError(f"scontrol --version: not understood: {text.strip()!r}")
            self._version = int(found[1]), int(found[2])
        return self._version

    def jobs(self, *, user_id: int | None = None) -> tuple[Job, ...]:
        """See `Slurm.jobs`."""
        whose = [] if user_id is None else [f"--user={user_id}"]
        jobs = read_jobs(self._run("squeue", "--json", "--all", "--states=all", *whose))
        # 22.05 ignores every filter beside --json.
        return tuple(job for job in jobs if user_id in {None, job.user_id})

    def job(self, job: str) -> Job | None:
        """See `Slurm.job`."""
        number = _job_id(job).partition("_")[0]
        try:
            found = read_jobs(
                self._run("squeue", "--json", "--all", "--states=all", f"--jobs={number}")
            )
        except SlurmError as error:
            if "Invalid job id" in str(error):
                return None
            raise
        return next((one for one in found if one.id == job), None)

    def nodes(self, names: Sequence[str] = ()) -> tuple[Node, ...]:
        """See `Slurm.nodes`."""
        wanted = {_node_name(name) for name in names}
        # sinfo's JSON lists nodes one by one only until 22.05; scontrol has JSON only from 23.02.
        asked = (
            ("scontrol", "show", "nodes", "--json")
            if self.version() >= _NODES_AS_JSON
            else ("sinfo", "--json", "--all")
        )
        nodes = read_nodes(self._run(*asked))
        return tuple(node for node in nodes if not wanted or node.name in wanted)

    def configuration(self) -> Mapping[str, str]:
        """See `Slurm.configuration`."""
        text = self._run("scontrol", "show", "config")
        return read_configuration(text.decode("utf-8", "replace"))

    def drain(self, node: str, *, reason: str) -> None:
        """See `Slurm.drain`."""
        self._update(f"nodename={_node_name(node)}", "state=drain", _setting("reason", reason))

    def resume(self, node: str) -> None:
        """See `Slurm.resume`."""
        # Not state=resume, which would also call a node up that is down for another reason.
        self._update(f"nodename={_node_name(node)}", "state=undrain")

    def requeue(self, job: str, *, hold: bool) -> None:
        """See `Slurm.requeue`."""
        self._run("scontrol", "requeuehold" if hold else "requeue", _job_id(job))

    def release(self, job: str) -> None:
        """See `Slurm.release`."""
        self._run("scontrol", "release", _job_id(job))

    def set_excluded(self, job: str, nodes: Sequence[str]) -> None:
        """See `Slurm.set_excluded`."""
        listed = ",".join(_node_name(node) for node in nodes)
        self._update(f"jobid={_job_id(job)}", f"excnodelist={listed}")

    def start_now(self, job: str) -> None:
        """See `Slurm.start_now`."""
        self._update(f"jobid={_job_id(job)}", "starttime=now")

    def set_comment(self, job: str, comment: str) -> None:
        """See `Slurm.set_comment`."""
        self._update(f"jobid={_job_id(job)}", _setting("comment", comment))

    def _update(self, *settings: str) -> None:
        self._run("scontrol", "update", *settings)

    def _run(self, name: str, *arguments: str) -> bytes:
        asked = " ".join([name, *arguments])
        running = sh.Command(self._path(name))(
            *arguments, _env=self._environment, _tty_out=False, _bg=True, _bg_exc=False
        )
        if not self._ended(running):
            running.kill()
            raise SlurmSilentError(f"{asked}: no answer in {self._timeout_s:g} s")
        try:
            running.wait()
        except sh.ErrorReturnCode as error:
            raise _refusal(asked, error.stderr or error.stdout) from error
        return bytes(running.stdout)

    def _ended(self, running: sh.RunningCommand) -> bool:
        # sh's own `_timeout` looks only every 0.1 s, ten times as long as Slurm needs to answer,
        # and waits for what cannot be killed.
        until = time.monotonic() + self._timeout_s
        pause_s = 0.002
        while running.is_alive():
            if time.monotonic() > until:
                return False
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, 0.05)
        return True

    def _path(self, name: str) -> str:
        for directory in self._directories:
            path = Path(directory) / name
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
        where = ", ".join(self._directories)
        raise SlurmError(f"{name}: not found in {where}; set slurm.bin_dir")


def _search_path() -> list[str]:
    return [place for place in os.environ.get("PATH", "").split(os.pathsep) if place]


def _refusal(asked: str, output: bytes) -> SlurmError:
    """Slurm's own words, in one line."""
    words = " ".join(output.decode("utf-8", "replace").split()) or "failed without a word"
    kind = SlurmSilentError if SILENT.search(words) else SlurmError
    return kind(f"{asked}: {words}")


def _job_id(job: str) -> str:
    # An empty id makes scontrol succeed at nothing; a raw array id would mean every task.
    if not _JOB.fullmatch(job):
        raise UsageError(f"not a job that can be acted on: {job!r}; give 12, or 12_3")
    return job


def _node_name(node: str) -> str:
    # To scontrol `ALL` and `n[1-9]` are many nodes.
    if not _NODE.fullmatch(node):
        raise UsageError(f"not the name of one node: {node!r}")
    return node


def _setting(name: str, value: str) -> str:
    if not value.isprintable():
        raise UsageError(f"{name}: control characters in {value!r}")
    return f"{name}={value}"
