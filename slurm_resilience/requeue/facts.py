"""What is known of one job when the controller decides about it."""

import msgspec

from slurm_resilience.incident import Incident
from slurm_resilience.slurm.values import Job


class Excluded(msgspec.Struct, frozen=True):
    """A node that we excluded from a job, and when (Unix seconds)."""

    node: str
    at: float


class JobFacts(msgspec.Struct, frozen=True):
    """One job that takes part: Slurm's word, its incidents, what the ledger remembers of it."""

    job: Job
    history: tuple[Incident, ...] = ()
    """Of this job's latest attempts, oldest first; an attempt may have none."""
    unread: str = ""
    """Why its run directory could not be read this time; it may be the next."""
    untrusted: str = ""
    """Why the latest incident file will not be used."""
    last_nodes: tuple[str, ...] = ()
    """Nodes of the attempt that ended last, where we saw it run."""
    pending_since: float | None = None
    """When we first saw it pending after that attempt (Unix seconds)."""
    ours: tuple[Excluded, ...] = ()
    """Those of its excluded nodes that we added."""
    early_starts: int = 0
    """How often its requeue delay was lifted lately without an incident."""
    refused: str = ""
    """Why Slurm would not take the excluded nodes of this attempt."""

    def incident(self, attempt: int) -> Incident | None:
        """The incident of attempt number *attempt*."""
        return next((one for one in self.history if one.attempt == attempt), None)
