"""What was read of a cluster's set-up: frozen values, no judgement."""

from collections.abc import Mapping

import msgspec


class ProgramFacts(msgspec.Struct, frozen=True):
    """One program that slurm.conf names."""

    setting: str
    """Prolog, Epilog or HealthCheckProgram."""
    path: str
    found: bool = True
    """Whether it is on this machine."""
    hook: str = ""
    """The hook that it is in the end, behind all links; empty for a program that is not ours."""
    executable: bool = True
    python: bool = True
    """Whether the Python is there that it starts."""
    version: str = ""
    """Of the package that it starts; empty where that could not be read."""
    loose: tuple[str, ...] = ()
    """Files and folders on the way to it that others than root can change."""


class PlaceFacts(msgspec.Struct, frozen=True):
    """A file or folder of this project's own."""

    path: str
    found: bool = False
    loose: tuple[str, ...] = ()
    unread: str = ""
    """Why it could not be looked at."""


class ClusterFacts(msgspec.Struct, frozen=True):
    """A cluster's set-up, as seen from one machine by one user."""

    package: str
    """This package's version."""
    commands: tuple[int, int]
    """Year and month of the Slurm commands here."""
    settings: Mapping[str, str]
    """slurm.conf as slurmctld has it; what is not set is absent."""
    programs: tuple[ProgramFacts, ...] = ()
    configuration: PlaceFacts = PlaceFacts("")
    state: PlaceFacts = PlaceFacts("")
    complaint: str = ""
    """What is wrong with our own configuration, in one line."""
    off: tuple[str, ...] = ()
    """Checks that a file switches off on this machine; `all` for every hook."""
    share: str = ""
    """Where the shims of this installation lie; empty where they do not."""
    verdict_age_s: float = 1800.0
    """How long the prolog believes a health check."""
