"""
A file system that never answers: `python -m testbed.hung_disk DIRECTORY`.

It takes the kernel's requests and keeps them, so that whoever asked waits in D state and cannot
be killed, as with a dead NFS server. When this process ends, everybody gets an error.
"""

import os
import struct
import sys
from pathlib import Path

from testbed.namespaces import mount

_INIT = 26
_HEADER = struct.Struct("<IIQQIIIHH")  # length, opcode, unique, node, uid, gid, pid, extensions
_REPLY = struct.Struct("<IiQ")  # length, error, unique
_INIT_REPLY = struct.Struct(
    "<IIIIHHI40x"
)  # version 7.31, no features, sizes left to the kernel
_MOST_BYTES = 1 << 20


def main() -> None:
    """Serve nothing, for ever."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    mount("testbed-hung", Path(sys.argv[1]), "fuse", 0, options)
    while True:
        request = os.read(device, _MOST_BYTES)
        _, opcode, unique, *_ = _HEADER.unpack_from(request)
        if opcode == _INIT:
            body = _INIT_REPLY.pack(7, 31, 0, 0, 0, 0, 4096)
            os.write(device, _REPLY.pack(_REPLY.size + len(body), 0, unique) + body)


if __name__ == "__main__":
    main()
