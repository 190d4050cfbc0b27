"""The healthy default of a node's sysfs root: what a compute node with InfiniBand shows."""

import shutil
from collections.abc import Mapping
from pathlib import Path

_IB = "class/infiniband/mlx5_0/ports/1"
_COUNTERS = (
    "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors",
    "port_rcv_remote_physical_errors", "port_rcv_switch_relay_errors", "port_xmit_discards",
    "port_xmit_constraint_errors", "port_rcv_constraint_errors", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "VL15_dropped", "port_xmit_wait",
    "port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets",
)  # fmt: skip
_HARDWARE_COUNTERS = (
    "local_ack_timeout_err", "out_of_buffer", "out_of_sequence", "packet_seq_err",
    "rnr_nak_retry_err", "roce_adp_retrans", "req_transport_retries_exceeded",
)  # fmt: skip

HEALTHY: Mapping[str, str] = {
    f"{_IB}/state": "4: ACTIVE",
    f"{_IB}/phys_state": "5: LinkUp",
    f"{_IB}/rate": "400 Gb/sec (4X NDR)",
    f"{_IB}/link_layer": "InfiniBand",
    **{f"{_IB}/counters/{name}": "0" for name in _COUNTERS},
    **{f"{_IB}/hw_counters/{name}": "0" for name in _HARDWARE_COUNTERS},
    "class/net/eth0/device/vendor": "0x15b3",
    "class/net/eth0/operstate": "up",
    "class/net/eth0/carrier": "1",
    "class/net/eth0/carrier_changes": "2",
    "class/net/eth0/carrier_down_count": "1",
    "class/net/eth0/speed": "100000",
    "class/net/eth0/mtu": "9000",
    "class/net/eth0/type": "1",
    "class/net/eth0/statistics/rx_bytes": "0",
    "class/net/eth0/statistics/tx_bytes": "0",
    "class/net/eth0/statistics/rx_errors": "0",
    "class/net/eth0/statistics/tx_errors": "0",
    "class/net/eth0/statistics/rx_dropped": "0",
    "class/net/eth0/statistics/tx_dropped": "0",
    "class/net/eth0/statistics/rx_crc_errors": "0",
    "devices/system/edac/mc/mc0/ce_count": "0",
    "devices/system/edac/mc/mc0/ue_count": "0",
}
"""Path below the root -> text, without the line's end."""


def write_healthy(root: Path) -> None:
    """Make *root* show a healthy node and nothing else."""
    shutil.rmtree(root, ignore_errors=True)
    for path, text in HEALTHY.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"{text}\n")
