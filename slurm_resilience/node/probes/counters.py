"""
Error counters of network links, out of sysfs.

Reading a counter that an adapter does not have makes some drivers write to the kernel log each
time (gpud issue 1164), so what is not supported is remembered for this boot and left alone.
"""

from __future__ import annotations

import errno
import os

from slurm_resilience.node.probes import files, network
from slurm_resilience.node.state import kept

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any

_PORT = (
    *(
        f"counters/{name}"
        for name in (
            "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
            "port_xmit_discards", "excessive_buffer_overrun_errors", "local_link_integrity_errors",
        )
    ),
    *(
        f"hw_counters/{name}"
        for name in (
            "rnr_nak_retry_err", "local_ack_timeout_err", "packet_seq_err", "roce_slow_restart",
        )
    ),
)  # fmt: skip
_INTERFACE = (
    "carrier_down_count", "statistics/rx_errors", "statistics/rx_crc_errors",
    "statistics/tx_errors",
)  # fmt: skip
_NAMES = {"carrier_down_count": "link_downed"}
_ABSENT = (errno.ENOENT, errno.EINVAL, errno.EOPNOTSUPP, errno.ENODEV)


def read(sysfs: str, names: list[str], *, memory: str, proc: str) -> list[dict[str, Any]]:
    """
    What the links *names*, and all others of real adapters, have counted.

    *memory*: a file for what is not supported in this boot. As `facts.LinkCounters`.
    """
    boot = kept.boot_id(proc)
    known = set((kept.of_boot(memory, boot) or b"").decode("ascii", "replace").split())
    lacking = set(known)
    found = [
        _of(sysfs, name, lacking)
        for name in network.names_of(sysfs, names)
        if os.path.isdir(_base(sysfs, name))
    ]
    if boot and lacking != known:
        kept.write_of_boot(memory, boot, "\n".join(sorted(lacking)).encode())
    return found


def _base(sysfs: str, name: str) -> str:
    device, _, port = name.partition(":")
    if port:
        return f"{sysfs}/class/infiniband/{device}/ports/{port}"
    return f"{sysfs}/class/net/{device}"


def _of(sysfs: str, name: str, lacking: set[str]) -> dict[str, Any]:
    base = _base(sysfs, name)
    values: dict[str, int] = {}
    unread: dict[str, str] = {}
    for file in _PORT if ":" in name else _INTERFACE:
        counter = _NAMES.get(file) or file.rpartition("/")[2]
        key = f"{name}/{file}"
        if key in lacking:
            unread[counter] = files.NOT_SUPPORTED
            continue
        try:
            text = files.text(f"{base}/{file}")
        except OSError as error:
            if error.errno in _ABSENT:
                lacking.add(key)
                unread[counter] = files.NOT_SUPPORTED
            else:
                unread[counter] = error.strerror or str(error)
            continue
        if text.isdigit():
            values[counter] = int(text)
        elif text.startswith("N/A"):  # "N/A (no PMA)"
            lacking.add(key)
            unread[counter] = files.NOT_SUPPORTED
        else:
            unread[counter] = f"not a number: {text}"
    return {"name": name, "values": values, "unread": unread}
