"""The answer: a plan, each number with where it comes from."""

import msgspec


class Value(msgspec.Struct, frozen=True):
    """One number of a plan, and where it comes from."""

    value: float
    source: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. Bytes, seconds, and shares from 0 to 1."""

    checkpoint_bytes: Value
    save_s: Value
    blocked_s: Value
    """How long training stands still for one save."""
    cost_s: Value
    """How much later the training is for one save: standing still, and slower while it is written."""
    mtbf_s: Value
    interval_s: Value
    interval_steps: Value | None
    recovery_s: Value
    lost_per_failure_s: Value
    lost_gpu_hours_per_day: Value
    ettr: Value
    """Effective training time ratio: the share of the time that brings the training forward."""
    signal_lead_s: Value
    collective_timeout_s: Value
    host_memory_bytes: Value
    """On each node."""
    disk_bytes: Value
    warnings: tuple[str, ...] = ()
