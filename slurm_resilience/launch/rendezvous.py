"""
Where the ranks of one attempt meet: a port that no other attempt, job or connection uses.

Derived from job id and attempt, so that a requeued job never meets what is left of its former
self, outside the range from which the kernel takes ports for outgoing connections, and tried by
binding it on the batch host, where rank 0 runs.
"""

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

from slurm_resilience.errors import LaunchError

LOWEST, HIGHEST = 10000, 65000
"""Below lie well-known services; PyTorch's own default (29500) is everybody's."""
ROOM = 2000
"""Fewer ports than this outside the kernel's range are not worth hashing into."""
TRIES = 64


def candidates(job: str, attempt: int, ephemeral: tuple[int, int]) -> Iterator[int]:
    """Ports for this attempt, best first; *ephemeral* is the kernel's own range, inclusive."""
    first, last = _widest_free(ephemeral)
    for number in range(TRIES):
        digest = hashlib.blake2b(f"{job}/{attempt}/{number}".encode(), digest_size=8).digest()
        yield first + int.from_bytes(digest, "big") % (last - first + 1)


def _widest_free(ephemeral: tuple[int, int]) -> tuple[int, int]:
    below = (LOWEST, min(ephemeral[0] - 1, HIGHEST))
    above = (max(ephemeral[1] + 1, LOWEST), HIGHEST)
    widest = max(below, above, key=lambda span: span[1] - span[0])
    return widest if widest[1] - widest[0] >= ROOM else (LOWEST, HIGHEST)


def ephemeral_range(proc: Path) -> tuple[int, int]:
    """The kernel's range for outgoing connections; Linux' default where it cannot be read."""
    try:
        low, high = (proc / "sys/net/ipv4/ip_local_port_range").read_text().split()
        return int(low), int(high)
    except (OSError, ValueError):
        return 32768, 60999


def free_port(ports: Iterator[int]) -> int:
    """The first of *ports* that can be bound here; `LaunchError` where none can."""
    for port in ports:
        if is_free(port):
            return port
    raise LaunchError(f"none of {TRIES} ports for the rendezvous is free on this node")


def is_free(port: int) -> bool:
    """Whether a server could listen on *port* here now."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    try:
        with socket.create_server(
            ("", port), family=family, dualstack_ipv6=family is socket.AF_INET6
        ):
            return True
    except (OSError, OverflowError):
        return False
