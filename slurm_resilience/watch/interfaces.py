"""Network interfaces of this node by their IPv4 address."""

import fcntl
import socket
import struct

SIOCGIFADDR = 0x8915
_REQUEST = struct.Struct("16sH14s")


def interface_of(address: str) -> str | None:
    """The interface that holds *address*, None where it is not told (IPv6, the loopback)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            if name != "lo" and _address_of(probe, name) == address:
                return name
    return None


def _address_of(probe: socket.socket, name: str) -> str | None:
    request = _REQUEST.pack(name.encode(), socket.AF_INET, b"")
    try:
        answer = fcntl.ioctl(probe, SIOCGIFADDR, request)
    except OSError:
        return None
    return socket.inet_ntoa(answer[20:24])
