"""
Which line of a dead attempt stands for which fault: a table, the most certain rows first.

`fallout` rows are what a rank sees when a peer dies or does not come: the one that reports them
is a victim. They count only where no row says what happened, and accuse nobody.
"""

import re

import msgspec

from slurm_resilience.incident import Class, Retry


class Row(msgspec.Struct, frozen=True):
    """One fault that a line of text gives away."""

    id: str
    pattern: str
    class_: Class
    retry: Retry
    advice: str
    fallout: bool = False


ROWS = (
    Row(
        "cuda-ecc", r"uncorrectable ECC error", "hardware", "exclude-node",
        "GPU memory failed; the node needs a look",
    ),
    Row(
        "gpu-lost", r"GPU has fallen off the bus|GPU is lost", "hardware", "exclude-node",
        "a GPU left the bus; the node needs a reset",
    ),
    Row(
        "gpu-unavailable", r"CUDA-capable device\(s\) is/are busy or unavailable",
        "hardware", "exclude-node", "a GPU is taken or broken; look for leftover processes",
    ),
    Row(
        "cuda-launch-failure", r"CUDA error: unspecified launch failure",
        "hardware", "exclude-node", "a kernel died on one GPU; often the GPU, sometimes the kernel",
    ),
    Row(
        "quota", r"Disk quota exceeded|EDQUOT", "storage", "hold",
        "free some of the quota, then release the job",
    ),
    Row(
        "disk-full", r"No space left on device|ENOSPC", "storage", "hold",
        "free some space, then release the job",
    ),
    Row(
        "storage-io", r"\[Errno (?:5|116|121)\]|Input/output error|Stale file handle",
        "storage", "same-nodes", "a file system failed while it was read or written",
    ),
    Row(
        "shared-memory", r"insufficient shared memory|killed by signal: Bus error",
        "memory", "stop",
        "shared memory is full: fewer loader workers, or look for leftovers in /dev/shm",
    ),
    Row(
        "host-memory", r"oom[_-]kill event|Out Of Memory|Out of memory: Killed process",
        "memory", "stop", "the node's memory ran out: ask for more (--mem) or use less",
    ),
    Row(
        "gpu-memory", r"CUDA out of memory|OutOfMemoryError: CUDA", "user-error", "stop",
        "the GPU's memory ran out: smaller batches, or shard the model further",
    ),
    Row(
        "checkpoint-damaged", r"PytorchStreamReader failed|CheckpointLoadError: ",
        "checkpoint", "same-nodes", "a checkpoint does not load; an older one is tried",
    ),
    Row(
        "checkpoint-place", r"CheckpointPlaceError: ", "user-error", "stop",
        "the directory of checkpoints cannot be used",
    ),
    Row(
        "checkpoint-in-use", r"CheckpointInUseError: ", "user-error", "stop",
        "the directory of checkpoints is somebody else's",
    ),
    Row(
        "checkpoint-not-saved", r"CheckpointSaveError: ", "storage", "same-nodes",
        "the last checkpoint could not be written",
    ),
    Row(
        "checkpoint", r"CheckpointError: ", "checkpoint", "same-nodes",
        "it ended over its checkpoints",
    ),
    Row(
        "port-in-use", r"EADDRINUSE|[Aa]ddress already in use", "software", "same-nodes",
        "the rendezvous port was taken; the next attempt takes another",
    ),
    Row(
        "cuda-illegal-access", r"an illegal memory access was encountered",
        "software", "same-nodes", "a kernel or an index is wrong; CUDA_LAUNCH_BLOCKING=1 shows where",
    ),
    Row(
        "device-assert", r"device-side assert triggered", "user-error", "stop",
        "an assertion in a kernel failed: most often an index out of range",
    ),
    Row(
        "fabric", r"NET/IB : Got completion .*(?:status=12|error 12|error 4\b)|NET/OFI Request completed with error",
        "network", "same-nodes", "the fabric lost a transfer for good",
    ),
    Row(
        "gpu-call-stuck", r"watchdog got stuck for \d+ seconds", "hardware", "same-nodes",
        "a GPU call of this rank did not come back",
    ),
    Row(
        "collective-at-start", r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=\d,",
        "software", "same-nodes", "the first collectives never met: look at the set-up",
        fallout=True,
    ),
    Row(
        "collective-timeout",
        r"caught collective operation timeout|Timed out waiting \d+ms for (?:recv|send)",
        "network", "same-nodes", "a peer did not come to a collective", fallout=True,
    ),
    Row(
        "peer-closed",
        r"[Cc]onnection closed by|[Cc]onnection reset by peer|Broken pipe|wrong type \d+ != \d+"
        r"|ncclRemoteError|DistNetworkError",
        "software", "same-nodes", "a peer went away first", fallout=True,
    ),
    Row(
        "rendezvous-closed", r"RendezvousClosedError", "software", "same-nodes",
        "another node left the rendezvous first", fallout=True,
    ),
)  # fmt: skip

STATUSES = {
    137: Row(
        "killed", "", "memory", "same-nodes",
        "a process was killed (KILL): most often the node's memory ran out",
    ),
    135: Row(
        "bus-error", "", "memory", "same-nodes", "a process died of SIGBUS: /dev/shm may be full"
    ),
    139: Row(
        "segfault", "", "software", "same-nodes", "a process died of SIGSEGV"
    ),
    134: Row("abort", "", "software", "same-nodes", "a process called abort"),
}  # fmt: skip
"""What an exit status alone says, by status (128 + signal)."""

MISUSED = Row(
    "usage", r"^\S+: (?:error: |can't open file )|^Error: ", "user-error", "stop",
    "the command line is wrong; a retry would end the same way",
)  # fmt: skip
"""Of a program that ended with `MISUSE`: as argparse, click and Python itself say it."""
MISUSE = 2

UNKNOWN = Row("unknown", "", "unknown", "same-nodes", "no line says why")

TORCHRUN_STATUS = re.compile(r"exitcode\s*: (-?\d+)")
"""How torchrun tells the end of a rank, in its log and in its closing table."""
TORCHRUN_END = re.compile(r"failed \(exitcode: -?\d+\) local_rank: ")
"""From here on torchrun speaks of itself: a traceback of its own, and a table."""
TORCHRUN_LOG = re.compile(r"torch[./]distributed[./](?:run|elastic|launcher)\b")
SURVIVED = re.compile(r"; training goes on$")
"""Our own word for trouble that a program lived through: not what ended it."""
