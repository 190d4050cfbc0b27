"""What can be set about `watch`: how long is too long. All in seconds."""

from typing import Annotated

import msgspec

from slurm_resilience.settings import Seconds


class WatchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the job's own watch; a site or a user (SLURM_RESILIENCE_CONFIG) may set them."""

    stall_s: Seconds = 600.0
    """Without a new step on any rank. As long as PyTorch's own collective time-out: earlier
    finds more, later burns more."""
    patience: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 3.0
    """A step may take this many times the longest one seen, where that is more than `stall_s`:
    a job with long steps is not stalled."""
    startup_s: Seconds = 1800.0
    """From the start to the first step: imports, compilation, data."""
    save_s: Seconds = 1800.0
    load_s: Seconds = 1800.0
    eval_s: Seconds = 3600.0
    finish_s: Seconds = 300.0
    """All ranks are done and their processes do not end."""
    join_s: Seconds = 300.0
    """From the start until every node's agent has reported."""
    silent_s: Seconds = 60.0
    """An agent says nothing, and no rank elsewhere moves."""
    lost_s: Seconds = 5.0
    """An agent's connection broke and it does not come back."""
    report_s: Seconds = 5.0
    """Between two reports of an agent."""
    gpu_s: Seconds = 30.0
    """Between two looks at the GPUs."""
    settle_s: Seconds = 5.0
    """After the first crash, for the other nodes to tell theirs: the first is not always the
    cause."""
    dump_s: Seconds = 3.0
    """For every rank to write its Python stack before a stalled job is ended."""
    grace_s: Seconds = 3.0
    """Between TERM and KILL when ranks are cancelled, or are done and do not leave. After a stall
    or a crash there is none: a rank inside a collective heeds no TERM."""
    orphan_s: Seconds = 60.0
    """An agent that hears nothing from the supervisor for so long ends its ranks."""
    claim_s: Seconds = 20.0
    """For a controller to take the job after an incident, before it requeues itself."""
