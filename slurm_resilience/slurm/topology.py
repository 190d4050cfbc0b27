"""Which nodes hang on one switch: Slurm's topology.conf."""

from pathlib import Path

from slurm_resilience.errors import UntrustedFileError, UsageError
from slurm_resilience.files import read_bounded
from slurm_resilience.slurm.hostlist import expand

MOST_BYTES = 4 << 20


def domains_of(topology: Path) -> dict[str, str]:
    """The leaf switch of each node, from a topology.conf of Slurm's tree plugin."""
    try:
        text = read_bounded(topology, most_bytes=MOST_BYTES).decode()
    except (OSError, UntrustedFileError, UnicodeDecodeError) as error:
        raise UsageError(f"{topology}: not a topology.conf: {error}") from error
    domains: dict[str, str] = {}
    for line in text.splitlines():
        words = dict(
            word.split("=", 1) for word in line.partition("#")[0].split() if "=" in word
        )
        named = {key.lower(): value for key, value in words.items()}
        if "switchname" in named and "nodes" in named:
            try:
                domains.update(dict.fromkeys(expand(named["nodes"]), named["switchname"]))
            except ValueError as error:
                raise UsageError(f"{topology}: {error}") from error
    return domains
