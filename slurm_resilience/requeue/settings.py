"""What can be set about `requeue`."""

from typing import Annotated

import msgspec

from slurm_resilience.settings import Seconds

Count = Annotated[int, msgspec.Meta(ge=1)]


class RequeueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be set about `requeue`."""

    tick_s: Seconds = 1.0
    """How often the controller looks. It never looks for more than a third of the time."""
    max_futile_attempts: Count = 3
    """Attempts in a row without a newer checkpoint, after which the job is held."""
    exclude_for_s: Seconds = 24 * 3600.0
    """How long a node that we excluded from a job stays so."""
    requeue_delay_s: Seconds = 150.0
    """A begin time nearer than this is Slurm's own delay after a requeue (121 s by default) and is
    lifted; a later one is the user's and stays."""
    early_starts: Count = 3
    """How often that delay is lifted for one job within `early_starts_window_s` where no incident
    asked for it: a job whose prolog fails everywhere must not drain a cluster in seconds."""
    early_starts_window_s: Seconds = 600.0
    silent_node_s: Seconds = 20.0
    """How long Slurm is left to notice that a node is gone which an incident calls silent."""
    node_down_s: Seconds = 600.0
    """How long Slurm is left to requeue a job itself whose node does not answer it (SlurmdTimeout and
    more): it can clean up the job no sooner, whoever requeues it."""
    read_timeout_s: Seconds = 2.0
    """For the files of one user's jobs; a file system that hangs holds up nobody else's."""
