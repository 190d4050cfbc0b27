"""The adapter that the settings ask for."""

from slurm_resilience.settings import SlurmSettings
from slurm_resilience.slurm.commands import Commands
from slurm_resilience.slurm.door import Slurm


def connect(settings: SlurmSettings, *, timeout_s: float | None = None) -> Slurm:
    """
    Slurm as *settings* say; *timeout_s* for who cannot wait as long as they allow.

    Raises `ConfigError` where pyslurm is asked for and cannot be used.
    """
    patience_s = settings.timeout_s if timeout_s is None else timeout_s
    if settings.adapter == "pyslurm":
        # Not at the top: nobody else pays for it.
        from slurm_resilience.slurm.library import Library  # noqa: PLC0415

        return Library(bin_dir=settings.bin_dir, timeout_s=patience_s)
    return Commands(bin_dir=settings.bin_dir, timeout_s=patience_s)
