"""What this project asks of Slurm. Two adapters answer: `commands` (the default) and `library`."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from slurm_resilience.slurm.values import Job, Node


class Slurm(Protocol):
    """
    Slurm.

    Every call raises `SlurmSilentError` when no answer came in time (nothing is known then), and
    `SlurmError` when Slurm refused; its text is Slurm's own.
    """

    def version(self) -> tuple[int, int]:
        """Year and month of the Slurm that is asked with, for example (22, 5)."""
        ...

    def jobs(self, *, user_id: int | None = None) -> tuple[Job, ...]:
        """All jobs that Slurm still knows, array tasks one by one; those of one user if asked."""
        ...

    def job(self, job: str) -> Job | None:
        """One job, None where Slurm knows none of that id."""
        ...

    def nodes(self, names: Sequence[str] = ()) -> tuple[Node, ...]:
        """The named nodes, or all."""
        ...

    def configuration(self) -> Mapping[str, str]:
        """slurm.conf as slurmctld has it, by key; what is not set is left out."""
        ...

    def drain(self, node: str, *, reason: str) -> None:
        """Let *node* finish what runs on it and take nothing new."""
        ...

    def resume(self, node: str) -> None:
        """Give a drained node back."""
        ...

    def requeue(self, job: str, *, hold: bool) -> None:
        """Put the job back in the queue, held if asked; ends the attempt that runs, if one does."""
        ...

    def release(self, job: str) -> None:
        """Let a held job go."""
        ...

    def set_excluded(self, job: str, nodes: Sequence[str]) -> None:
        """Replace the nodes that *job* must not get (only possible once it runs no more)."""
        ...

    def start_now(self, job: str) -> None:
        """Lift the earliest start time of a pending job."""
        ...

    def set_comment(self, job: str, comment: str) -> None:
        """Replace the job's Comment."""
        ...
