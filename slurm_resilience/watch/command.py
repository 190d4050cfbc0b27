"""The user's command on this node: under a keeper, its output passed on, its end told once."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from slurm_resilience.diagnosis.error_file import read_errors
from slurm_resilience.watch.keeper import command_line
from slurm_resilience.watch.messages import Exited
from slurm_resilience.watch.output import Relay
from slurm_resilience.watch.processes import end_tree, patience, shell_status

LAST_OUTPUT_S = 2.0


class Command:
    """A command that was started."""

    def __init__(
        self, words: Sequence[str], environ: Mapping[str, str], *, grace_s: float, shield: bool
    ) -> None:
        """Start it; *grace_s* between TERM and KILL when it is ended, *shield* as in `keeper`."""
        self._grace_s = grace_s
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        try:
            self._keeper = subprocess.Popen(  # noqa: S603 - the user's own command
                command_line(grace_s, words, shield=shield),
                env=environ,
                stdin=subprocess.PIPE,
                stdout=out_end,
                stderr=err_end,
                start_new_session=True,
            )
        finally:
            os.close(out_end)
            os.close(err_end)
        self._stdout = Relay(out, sys.stdout.fileno())
        self._stderr = Relay(err, sys.stderr.fileno())
        self._asked = False

    def ask_to_end(self) -> None:
        """End the whole tree with grace; returns at once."""
        if not self._asked and self._keeper.stdin is not None:
            self._asked = True
            try:
                self._keeper.stdin.write(b"\n")
                self._keeper.stdin.flush()
            except BrokenPipeError:
                pass  # it has ended by itself

    def kill(self) -> None:
        """End the whole tree without grace, also while it is being ended; returns at once."""
        self._asked = True
        if self._keeper.stdin is not None:
            self._keeper.stdin.close()

    def ended(self, errors: Path, *, spare: Sequence[int]) -> Exited | None:
        """How it ended, None while it runs; *errors* holds the ranks' error files."""
        code = self._keeper.poll()
        if code is None:
            return None
        # The keeper leaves nothing behind unless it was itself killed.
        end_tree(patience(self._grace_s), spare=spare)
        for relay in (self._stdout, self._stderr):
            relay.finish(LAST_OUTPUT_S)
        return Exited(
            shell_status(code),
            stderr=self._stderr.lines(),
            stdout=self._stdout.lines(),
            errors=read_errors(errors),
        )
