"""Jobs and nodes as Slurm tells them: frozen, the same for every Slurm version and adapter."""

import msgspec


class Job(msgspec.Struct, frozen=True):
    """One job, array task, or heterogeneous job (by its leader)."""

    id: str
    """As Slurm's commands take it: `12`, or `12_3` for an array task."""
    state: str
    """Base state: PENDING, RUNNING, COMPLETED, FAILED, …; COMPLETING where Slurm (before 23.11)
    does not say what lies beneath."""
    flags: frozenset[str] = frozenset()
    """COMPLETING, REQUEUE_HOLD, SPECIAL_EXIT, … where they are set beside the state."""
    reason: str = ""
    """Why it waits: BeginTime, JobHeldUser, …"""
    user_id: int = -1
    restarts: int = 0
    nodes: tuple[str, ...] = ()
    """Nodes of the running (or last) attempt; empty while pending."""
    nodes_needed: int = 1
    excluded: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    """Nodes that it asked for by name; to exclude one of them would keep it waiting for ever."""
    comment: str = ""
    partition: str = ""
    work_dir: str = ""
    outputs: tuple[str, ...] = ()
    """Files of its output and errors, absolute; `%j` and the like may stand in them. Slurm 22.05
    does not tell them where they are the default, slurm-%j.out."""
    can_requeue: bool = True
    held: bool = False
    begins_at: float | None = None
    """Unix seconds before which it may not start, where it is pending."""
    started_at: float | None = None
    ends_at: float | None = None
    """Unix seconds of the time limit, where it is running."""
    signal: int | None = None
    """What ended its batch script, where it is over and a signal did."""
    preempted_at: float | None = None
    """Unix seconds at which Slurm told this attempt to make room; it may still run in its grace."""

    @property
    def is_pending(self) -> bool:
        """Waiting, with nothing of an earlier attempt left to clean up."""
        return self.state == "PENDING" and "COMPLETING" not in self.flags

    @property
    def is_running(self) -> bool:
        """Running and not on its way out."""
        return self.state == "RUNNING" and "COMPLETING" not in self.flags


class Node(msgspec.Struct, frozen=True):
    """One node."""

    name: str
    state: str
    """Base state: IDLE, ALLOCATED, MIXED, DOWN, …"""
    flags: frozenset[str] = frozenset()
    """DRAIN, NOT_RESPONDING, MAINTENANCE, PLANNED, …"""
    reason: str = ""
    """Why the node is set apart, without Slurm's ` [user@time]` stamp; empty where it is not, as
    Slurm 24.11 leaves an old one standing when the node is given back."""
    reason_at: float | None = None
    """Unix seconds, on slurmctld's clock, at which the reason was set."""
    boot_time: float | None = None
    partitions: tuple[str, ...] = ()

    @property
    def is_drained(self) -> bool:
        """Takes no new work because somebody said so."""
        return "DRAIN" in self.flags

    @property
    def is_usable(self) -> bool:
        """Could take work, now or when what runs on it ends."""
        away = {"DRAIN", "NOT_RESPONDING", "FAIL", "POWERED_DOWN", "REBOOT_REQUESTED"}
        return (
            self.state not in {"DOWN", "ERROR", "UNKNOWN", "FUTURE"} and not self.flags & away
        )
