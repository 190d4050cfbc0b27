"""The facts of a good node -> what its kind has. Pure."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from slurm_resilience.node.facts import GpuFacts, LinkFacts, NodeFacts
from slurm_resilience.node.settings import (
    DiskExpectation,
    Expectations,
    LinkExpectation,
)

MEMORY_PERCENT = 98
"""The kernel takes a little more or less for itself by version; one missing DIMM is more than this."""

_T = TypeVar("_T")


def learn(facts: NodeFacts, named: Expectations) -> Expectations:
    """
    What nodes like this one have.

    *named*: what was expected so far. What cannot be seen without being asked for (services, modules,
    paths) or is no property of the board (a driver version, a power limit) stays as it is there.
    """
    memory = facts.memory.total_mib if facts.memory else None
    return msgspec.structs.replace(
        named,
        **_of_gpus(facts.gpus) if facts.gpus is not None else {},
        links={
            link.name: LinkExpectation(link.rate_gbps)
            for link in facts.links or ()
            if link.is_up and _is_of_its_kind(link, named)
        },
        disks={
            disk.path: DiskExpectation(bool(disk.mounted), not disk.read_only)
            for disk in facts.disks
        },
        memory_mib=memory * MEMORY_PERCENT // 100 if memory else named.memory_mib,
        nvme_drives=_nvme_drives(facts) or named.nvme_drives,
    )


def _is_of_its_kind(link: LinkFacts, named: Expectations) -> bool:
    """
    Whether other nodes have it too: ports for RDMA, their interfaces, and what somebody named.

    Not a management port, which may hang elsewhere; nor `enx…`, a name made of one card's address.
    """
    return not link.name.startswith("enx") and (link.rdma or link.name in named.links)


def _nvme_drives(facts: NodeFacts) -> int:
    return sum(drive.name.startswith("nvme") for drive in facts.drives or ())


def as_profile(expect: Expectations, nodes: str) -> dict[str, Any]:
    """The part of a configuration that gives *nodes* (a Slurm host list) these expectations."""
    usual = msgspec.to_builtins(Expectations())
    told = msgspec.to_builtins(expect)
    changed = {key: value for key, value in told.items() if value != usual[key]}
    if links := changed.get("links"):
        changed["links"] = {name: _told(link) for name, link in links.items()}
    return {"node": {"profiles": {nodes: changed}}}


def _told(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _of_gpus(gpus: tuple[GpuFacts, ...]) -> dict[str, Any]:
    found = {
        "ecc": _same(gpu.ecc_enabled for gpu in gpus),
        "mig": _same(gpu.mig for gpu in gpus),
        # None of them up is a board without NVLink, or one whose bridge is not there.
        "nvlinks": _same(gpu.nvlinks_up for gpu in gpus) or None,
        # Below its best a board may be at rest, or in a narrow slot: nothing to learn from.
        "pcie_width": _same(
            gpu.pcie_width if gpu.pcie_width == gpu.pcie_width_max else None for gpu in gpus
        ),
    }
    return {"gpus": len(gpus)} | {
        key: value for key, value in found.items() if value is not None
    }


def _same(values: Iterable[_T]) -> _T | None:
    """What all have; None where they differ or one of them was not read."""
    found = [*values]
    return found[0] if found and all(value == found[0] for value in found) else None
