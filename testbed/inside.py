"""What can be done on a running cluster: run things, submit, look, wait."""

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from testbed import commands
from testbed.errors import TestbedError
from testbed.layout import CONTROLLER, Layout, Spec
from testbed.processes import Command

T = TypeVar("T")
POLL_S = 0.1


class Inside:
    """The cluster from its users' side."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.layout = Layout(spec.instance)
        self.shared = self.layout.shared
        """The shared file system; the same path works on every machine of the cluster."""
        self.logs = self.layout.logs
        self._started: list[Command] = []

    def home(self, user: str) -> Path:
        """A user's home, by a path that works here and on every machine of the cluster."""
        return self.shared / "home" / user

    # ── running ─────────────────────────────────────────────────────────────────────────────

    def popen(
        self,
        argv: Sequence[str],
        *,
        user: str = "alice",
        on: str = CONTROLLER,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Command:
        """Start a command on a machine; its streams are text pipes. `reset` ends what is left."""
        process = Command(
            commands.wrapped(self.spec, on, user, argv, cwd),
            env=commands.environment(self.spec, user, env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "alice",
        on: str = CONTROLLER,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a machine to its end; a failure shows what it printed."""
        with self.popen(argv, user=user, on=on, cwd=cwd, env=env) as process:
            try:
                out, err = process.communicate(stdin, timeout_s)
            except subprocess.TimeoutExpired as error:
                raise TestbedError(
                    f"{' '.join(argv)} on {on}: not over after {error.timeout:g} s"
                ) from error
            finally:
                process.kill()
                self._started.remove(process)
        done = subprocess.CompletedProcess(argv, process.returncode, out, err)
        if check and done.returncode:
            raise TestbedError(
                f"{' '.join(argv)} on {on} as {user}: exit status {done.returncode}\n{out}{err}"
            )
        return done

    def _end_commands(self) -> None:
        for process in self._started:
            process.kill()
        for process in self._started:
            process.communicate()
        self._started.clear()

    def sbatch(
        self,
        arguments: Sequence[str],
        *,
        user: str = "alice",
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> str:
        """Submit; returns the job id. *stdin* is the script where *arguments* names none."""
        done = self.run(
            ["sbatch", "--parsable", *arguments], user=user, cwd=cwd, env=env, stdin=stdin
        )
        return done.stdout.strip().split(";")[0]

    # ── looking ─────────────────────────────────────────────────────────────────────────────

    def job(self, job: str) -> dict[str, str]:
        """`scontrol show job`, key by key; empty where Slurm knows none."""
        done = self.run(["scontrol", "-o", "show", "job", job], user="root", check=False)
        return parse_oneliner(done.stdout.partition("\n")[0])

    def node(self, name: str) -> dict[str, str]:
        """`scontrol show node`, key by key."""
        done = self.run(["scontrol", "-o", "show", "node", name], user="root")
        return parse_oneliner(done.stdout)

    def node_state(self, name: str) -> str:
        """Slurm's state of a node with its flags: `IDLE`, `IDLE+DRAIN`, `DOWN*+…`."""
        return self.node_states()[name]

    def node_states(self) -> dict[str, str]:
        """Slurm's state of every node; empty where slurmctld does not answer."""
        done = self.run(["scontrol", "-o", "show", "node"], user="root", check=False)
        nodes = [parse_oneliner(line) for line in done.stdout.splitlines()]
        return {node["NodeName"]: node["State"] for node in nodes if "State" in node}

    def is_idle(self) -> bool:
        """Whether every node could take work and has none."""
        states = self.node_states()
        return len(states) == self.spec.nodes and set(states.values()) == {"IDLE"}

    def tails(self, lines: int = 12) -> str:
        """The ends of Slurm's logs."""
        parts = []
        for log in sorted(self.logs.glob("slurm*.log")) or sorted(self.logs.glob("*.err")):
            text = log.read_text(errors="replace").splitlines()[-lines:]
            if text:
                parts.append("\n".join([f"── {log.name}", *text]))
        return "\n".join(parts)

    # ── waiting ─────────────────────────────────────────────────────────────────────────────

    def wait_for(
        self, what: Callable[[], T | None], timeout_s: float = 30.0, describe: str = "it"
    ) -> T:
        """
        The first truthy value of *what*.

        `TestbedError` after *timeout_s* shows the last value and the ends of Slurm's logs.
        """
        deadline = time.monotonic() + timeout_s
        while not (value := what()):
            if time.monotonic() > deadline:
                raise TestbedError(
                    f"waited {timeout_s:g} s for {describe}; last seen: {value!r}\n{self.tails()}"
                )
            time.sleep(POLL_S)
        return value

    def wait_for_job(self, job: str, state: str, timeout_s: float = 30.0) -> dict[str, str]:
        """The job once it is in *state*; a failure shows where it is instead."""
        seen: dict[str, str] = {}

        def reached() -> bool:
            seen.clear()
            seen.update(self.job(job))
            return seen.get("JobState") == state

        try:
            self.wait_for(reached, timeout_s, f"job {job} {state}")
        except TestbedError as error:
            shown = {
                key: seen.get(key) for key in ("JobState", "Reason", "ExitCode", "NodeList")
            }
            raise TestbedError(f"job {job} is not {state} but {shown}; {error}") from error
        return seen


def parse_oneliner(line: str) -> dict[str, str]:
    """One line of `scontrol --oneliner`; a word without `=` belongs to the value before it."""
    fields: dict[str, str] = {}
    key = ""
    for word in line.split():
        name, separator, value = word.partition("=")
        if (
            separator
            and name[:1].isupper()
            and name.replace(":", "").replace("/", "").isalnum()
        ):
            key = name
            fields[key] = value
        elif key:
            fields[key] += f" {word}"
    return fields
