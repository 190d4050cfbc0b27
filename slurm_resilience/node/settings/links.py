"""How fast a port's error counters may grow."""

from typing import Annotated

import msgspec
from msgspec import Meta

PerSecond = Annotated[float, Meta(gt=0, le=1_000_000_000)] | None


class LinkErrorRates(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    Growth a second, mean of the last ten minutes, from which it is a warning; null: not judged.

    By sysfs's names. NVSentinel's figures where it has one.
    """

    symbol_error: PerSecond = 120 / 3600
    """120 an hour is the error rate that the InfiniBand specification allows (1e-12)."""
    link_error_recovery: PerSecond = 5 / 60
    port_rcv_errors: PerSecond = 10.0
    port_xmit_discards: PerSecond = 100.0
    """Congestion, mostly of a neighbour that does not take what it is sent."""
    rnr_nak_retry_err: PerSecond = 1.0
    """A receiver that was not ready: mostly the job's own."""
    local_ack_timeout_err: PerSecond = 1.0
    packet_seq_err: PerSecond = 100.0
    roce_slow_restart: PerSecond = 10.0
    rx_errors: PerSecond = 10.0
    rx_crc_errors: PerSecond = 1.0
    """A wrong check sum is a bad cable, module or connector."""
    tx_errors: PerSecond = 10.0
