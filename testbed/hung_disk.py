"""
A file system that never answers: `python -m testbed.hung_disk DIRECTORY`.

It takes the kernel's requests and keeps them, so that whoever asked waits in D state and cannot
be killed, as with a dead NFS server. When this process ends, everybody gets an error.
"""

import errno
import os
import signal
import struct
import sys
from pathlib import Path

from testbed.namespaces import mount

_INIT = 26
_INTERRUPT = 36
_HEADER = struct.Struct("<IIQQIIIHH")  # length, opcode, unique, node, uid, gid, pid, extensions
_REPLY = struct.Struct("<IiQ")  # length, error, unique
_INIT_REPLY = struct.Struct(
    "<IIIIHHI40x"
)  # version 7.31, no features, sizes left to the kernel
_MOST_BYTES = 1 << 20


def main() -> None:
    """Serve nothing, for ever."""
    path = Path(sys.argv[1])
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    mount("testbed-hung", path, "fuse", 0, options)
    first = os.fork()
    if first == 0:
        path.stat()
        os._exit(0)
    asked = 0
    while True:
        _, opcode, unique, _, _, _, pid, *_ = _HEADER.unpack_from(os.read(device, _MOST_BYTES))
        if opcode == _INIT:
            body = _INIT_REPLY.pack(7, 31, 0, 0, 0, 0, 4096)
            os.write(device, _REPLY.pack(_REPLY.size + len(body), 0, unique) + body)
        elif opcode == _INTERRUPT:
            # Once told that nothing can be interrupted, the kernel lets everybody wait in D
            # state from the start. A process of our own is spent on telling it.
            os.write(device, _REPLY.pack(_REPLY.size, -errno.ENOSYS, unique))
            os.write(device, _REPLY.pack(_REPLY.size, -errno.EIO, asked))
            os.waitpid(first, 0)
            print("hung", flush=True)
        elif pid == first:
            asked = unique
            os.kill(first, signal.SIGKILL)


if __name__ == "__main__":
    main()
