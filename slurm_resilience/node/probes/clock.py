"""The kernel's clock, by adjtimex: whoever steers it (chrony, ntpd, timesyncd) tells the kernel."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # typing takes longer to import than a probe may run
if TYPE_CHECKING:
    from typing import Any

_UNSYNCHRONISED, _NANOSECONDS = 0x0040, 0x2000  # STA_UNSYNC, STA_NANO of linux/timex.h
_ERROR = 5  # TIME_ERROR
_UNTOLD_US = 16_000_000
"""NTP_PHASE_LIMIT: where the kernel's estimate starts, and stays if nobody tells it one."""


class _Timex(ctypes.Structure):
    """`struct timex` up to the fields that are read; the kernel fills 208 bytes."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("room", ctypes.c_byte * 256),
    )


def read() -> dict[str, Any]:
    """As `facts.ClockFacts`. Raises OSError where the kernel does not say."""
    libc = ctypes.CDLL(None, use_errno=True)
    timex = _Timex()  # no modes: nothing is set, so anybody may ask
    state = libc.adjtimex(ctypes.byref(timex))
    if state < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    synchronised = state != _ERROR and not timex.status & _UNSYNCHRONISED
    unit = 1e-9 if timex.status & _NANOSECONDS else 1e-6
    return {
        "synchronised": synchronised,
        # Unsteered, both are what they were at boot.
        "offset_s": timex.offset * unit if synchronised else None,
        "error_s": timex.esterror * 1e-6
        if synchronised and timex.esterror < _UNTOLD_US
        else None,
    }
