"""
Everything this package raises on purpose.

    ResilienceError            could not do it; the text names what and what to do
    ├── UsageError             the caller's input is wrong
    │   └── ConfigError        a configuration file is wrong
    ├── SlurmError             Slurm refused or answered nonsense
    │   └── SlurmSilentError   Slurm did not answer in time; nothing is known
    ├── UntrustedFileError     a file is not what it should be: a link, foreign, too large, torn
    ├── LockBusyError          somebody else holds the lock
    ├── LedgerError            the ledger cannot be read or written
    ├── LaunchError            the job cannot be started as asked
    └── CheckpointError        a checkpoint cannot be written or read
        ├── CheckpointLoadError    none is sound, or it does not fit this run's state
        │   └── CheckpointVersionError  a newer version of this package wrote it
        ├── CheckpointPlaceError   the directory is not there, or cannot be written
        ├── CheckpointInUseError   another job writes to the directory
        ├── CheckpointSaveError    the last save failed: what came after the one before is not kept
        └── CheckpointCopyError    a copy in object storage cannot be made or read

The command line turns each into one line and exit status 2.
"""


class ResilienceError(Exception):
    """Could not do it; the text says what was attempted and what to do."""


class UsageError(ResilienceError):
    """The caller's input is wrong."""


class ConfigError(UsageError):
    """A configuration file is wrong; names the file and the key."""


class SlurmError(ResilienceError):
    """Slurm refused a request, or its answer could not be understood."""


class SlurmSilentError(SlurmError):
    """Slurm did not answer in time: the state is unknown, so nothing may be changed."""


class UntrustedFileError(ResilienceError):
    """A file is a link, belongs to somebody else, is too large, or is torn."""


class LockBusyError(ResilienceError):
    """Somebody else holds the lock."""


class LedgerError(ResilienceError):
    """The ledger cannot be read or written; what it would remember is not known."""


class LaunchError(ResilienceError):
    """The job cannot be started as asked."""


class CheckpointError(ResilienceError):
    """A checkpoint cannot be written or read."""


class CheckpointLoadError(CheckpointError):
    """No checkpoint is sound, or the one asked for does not fit."""


class CheckpointVersionError(CheckpointLoadError):
    """A newer version of this package wrote the checkpoint: not damaged, and not ours to judge."""


class CheckpointPlaceError(CheckpointError):
    """
    The directory of checkpoints cannot be used: a mount is missing, a file is in the way, writing
    is not allowed, or what earlier attempts saved there is gone.
    """


class CheckpointInUseError(CheckpointError):
    """Another job, or a later attempt of this one, writes to the directory of checkpoints."""


class CheckpointSaveError(CheckpointError):
    """The last save failed; its cause is the `OSError` where the system gave one."""


class CheckpointCopyError(CheckpointError):
    """A copy in object storage cannot be made or read; what is on disk is not touched by it."""
