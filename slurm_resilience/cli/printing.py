"""What commands print."""

import msgspec

from slurm_resilience.plain import plain


def show(line: str) -> None:
    """Print a line that holds what others named: reasons, processes, devices, paths."""
    print(plain(line))


def print_json(document: object) -> None:
    """Print one JSON document."""
    print(msgspec.json.format(msgspec.json.encode(document)).decode())
