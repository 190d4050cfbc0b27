"""What Slurm's own record of a job decides, whatever the text says."""

from collections.abc import Sequence

from slurm_resilience.diagnosis.facts import Record, Said
from slurm_resilience.diagnosis.rules import ALL
from slurm_resilience.diagnosis.suspects import Match

RECORD = "sacct"
"""Where lines of Slurm's record are said to stand."""
_RECORDS = {
    "TIMEOUT": "slurm-time-limit",
    "DEADLINE": "slurm-time-limit",
    "PREEMPTED": "slurm-preempted",
    "NODE_FAIL": "node-failure",
    "BOOT_FAIL": "slurm-boot-failed",
    "OUT_OF_MEMORY": "slurm-out-of-memory",
    "CANCELLED": "slurm-cancelled",
    "REQUEUED": "slurm-requeued",
    "COMPLETED": "finished",
}


def recorded_in(record: Record | None, matches: Sequence[Match]) -> list[Match]:
    """What Slurm's record alone decides, with lines that say the same; none: the text decides."""
    if record is None or not record.state.split():
        return []
    id_ = _RECORDS.get(record.state.split()[0].rstrip("+"))
    row = next((row for row in ALL if row.id == id_), None)
    if row is None:
        return []
    same = [match for match in matches if match.row.id == id_]
    lost = record.nodes if id_ == "node-failure" and not same else ()
    told = [
        f"Slurm's record: {record.state}",
        *(f"srun: error: Node failure on {node}" for node in lost),
    ]
    return [*(Match(row, Said(text, file=RECORD)) for text in told), *same]
