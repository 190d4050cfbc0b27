"""`diagnose`: why a job died, from what it left behind."""

import argparse
import difflib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from slurm_resilience import config
from slurm_resilience.bounded import ask
from slurm_resilience.cli import standard_input
from slurm_resilience.cli.arguments import path, refused
from slurm_resilience.cli.printing import print_json
from slurm_resilience.diagnosis.facts import Left, Record
from slurm_resilience.diagnosis.findings import Diagnosis
from slurm_resilience.diagnosis.policy import decide
from slurm_resilience.diagnosis.rules import ALL, explained
from slurm_resilience.diagnosis.rules.row import ACCUSES, ROLES, Row
from slurm_resilience.diagnosis.sources import left_in
from slurm_resilience.errors import UntrustedFileError, UsageError
from slurm_resilience.plain import plain
from slurm_resilience.run_directory import run_directory_of
from slurm_resilience.slurm.connect import connect
from slurm_resilience.slurm.outputs import outputs_of
from slurm_resilience.slurm.topology import domains_of
from slurm_resilience.slurm.values import Job

READ_S = 300.0
"""For the files of a job on a slow file system; a hung one is not waited for."""
SHOWN = 300
"""Characters of one line of evidence."""
STATES = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "COMPLETING", "CONFIGURING", "DEADLINE", "FAILED",
    "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "PREEMPTED", "REQUEUED", "RESIZING", "REVOKED", "RUNNING",
    "SUSPENDED", "TIMEOUT",
)  # fmt: skip
"""Of a job, as sacct(1) has them."""
LIVES = frozenset({"PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING"})
"""States that speak of an attempt that is not over, or of the next one."""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    parser = commands.add_parser(
        "diagnose",
        help="why a job died, and whether a retry can help",
        description="Reads job output, torchrun's log folders and error files, incident files and "
        "kernel logs, all of one attempt; of a file with several attempts, the last. Nothing is "
        "sent anywhere.",
    )
    parser.add_argument(
        "logs", nargs="*", type=path, metavar="LOG", help="a file, a folder of them, or -"
    )
    parser.add_argument("--job", metavar="ID", help="12, or 12_3: what Slurm and its files say")
    parser.add_argument(
        "--state",
        type=_state,
        metavar="STATE",
        help="what sacct says of the attempt: TIMEOUT, PREEMPTED, …",
    )
    parser.add_argument(
        "--topology", type=path, metavar="FILE", help="topology.conf: nodes that fail together"
    )
    parser.add_argument(
        "--explain", metavar="RULE", help="what a cause means, and where it is from"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON document and nothing else"
    )
    parser.set_defaults(do=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.explain is not None:
        return _explain(arguments.explain, as_json=arguments.json)
    if not arguments.logs and arguments.job is None:
        raise UsageError("nothing to look at: give LOG, --job or --explain")
    record = Record(arguments.state) if arguments.state else None
    domains = domains_of(arguments.topology) if arguments.topology else {}
    if arguments.job is not None:
        diagnosis = _of_job(arguments.job, arguments.logs, record, domains)
    elif standard_input.NAME in arguments.logs:
        diagnosis = _of_standard_input(arguments.logs, record, domains)
    else:
        diagnosis = decide(left_in(arguments.logs, record=record, domains=domains))
    if arguments.json:
        print_json(document(diagnosis))
    else:
        print("\n".join(plain(line, most=SHOWN * 4) for line in _lines(diagnosis)))
    return 0


def document(diagnosis: Diagnosis) -> dict[str, object]:
    """A diagnosis as `--json` prints it."""
    told: dict[str, object] = msgspec.to_builtins(diagnosis)
    told["suspects"] = [
        {"rank": one.rank, "node": one.node, "why": one.why}
        | ({} if one.local_rank is None else {"local_rank": one.local_rank})
        for one in diagnosis.suspects
    ]
    return told


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"{diagnosis.class_}: {diagnosis.advice}"
    yield f"  cause {diagnosis.cause}, confidence {diagnosis.confidence}; retry: {diagnosis.retry}"
    for one in diagnosis.suspects:
        who = [
            f"rank {one.rank}" if one.rank is not None else "",
            f"local rank {one.local_rank}" if one.local_rank is not None else "",
            f"node {one.node}" if one.node else "",
        ]
        yield f"  suspect {', '.join(filter(None, who))}: {plain(one.why, most=SHOWN)}"
    for line in diagnosis.evidence:
        place = line.file if line.line is None else f"{line.file}:{line.line}"
        yield f"  {place}: {plain(line.text, most=SHOWN)}"


def _of_standard_input(
    logs: Sequence[Path], record: Record | None, domains: dict[str, str]
) -> Diagnosis:
    try:
        folder = tempfile.TemporaryDirectory()
    except OSError as error:
        raise UsageError(
            f"standard input: no room to keep it: {error.strerror}; name a file, or set TMPDIR"
        ) from error
    with folder as name:
        spool = Path(name, "standard-input")
        standard_input.spooled(spool)
        paths = [spool if log == standard_input.NAME else log for log in logs]
        return _renamed(decide(left_in(paths, record=record, domains=domains)), str(spool))


def _renamed(diagnosis: Diagnosis, spooled: str) -> Diagnosis:
    evidence = (
        msgspec.structs.replace(line, file=str(standard_input.NAME))
        if line.file == spooled
        else line
        for line in diagnosis.evidence
    )
    return msgspec.structs.replace(diagnosis, evidence=tuple(evidence))


def _state(text: str) -> str:
    """A state as sacct prints it, `CANCELLED by 1000` and `CANCELLED+` too."""
    words = text.upper().split()
    if not words or words[0].rstrip("+") not in STATES:
        raise refused(text, f"a state of sacct's: {', '.join(STATES)}")
    return text.upper()


# ── a job ───────────────────────────────────────────────────────────────────────────────────


def _of_job(
    name: str, logs: Sequence[Path], record: Record | None, domains: dict[str, str]
) -> Diagnosis:
    """What Slurm says of a job, what lies in its folders, and *logs* beside that."""
    job = connect(config.load().slurm).job(name)
    if job is None and not logs:
        raise UsageError(f"job {name}: Slurm knows it no more; give its log")
    if job is not None and record is None and job.state not in LIVES:
        record = Record(job.state, job.nodes if job.state == "NODE_FAIL" else ())
    left = left_in(logs, record=record, domains=domains)
    theirs = Left() if job is None else _left_by(job)
    if not (left.said or theirs.said or theirs.incident or record):
        raise UsageError(f"job {name}: no output found in its folder; give its log as well")
    return decide(
        msgspec.structs.replace(
            left,
            said=(*left.said, *theirs.said),
            incident=left.incident or theirs.incident,
            slowed=left.slowed or theirs.slowed,
            nodes=() if job is None else job.nodes,
        )
    )


def _left_by(job: Job) -> Left:
    """What a job's own files say, read as their owner by a child: a file system may hang."""
    answer = ask(
        lambda: [msgspec.json.encode(left_in(list(_files_of(job)), may_be_empty=True))],
        deadline_s=READ_S,
        as_user=job.user_id if os.geteuid() == 0 and job.user_id > 0 else None,
    )
    if not answer.items:
        raise UsageError(f"job {job.id}: its files: {answer.trouble}")
    return msgspec.json.decode(answer.items[0], type=Left)


def _files_of(job: Job) -> Iterator[Path]:
    """Its run directory, and what Slurm says that it writes to."""
    try:
        directory = run_directory_of(job.comment, work_dir=job.work_dir, job=job.id)
    except UntrustedFileError as error:
        raise UsageError(str(error)) from error
    if directory is not None and directory.exists():
        yield directory
    usual = "slurm-%A_%a.out" if "_" in job.id else "slurm-%j.out"
    for output in job.outputs or (f"{job.work_dir}/{usual}",):
        yield from outputs_of(output, job.id)


# ── a rule ──────────────────────────────────────────────────────────────────────────────────


def _explain(id_: str, *, as_json: bool) -> int:
    rows = explained(id_)
    if not rows:
        near = difflib.get_close_matches(id_, [row.id for row in ALL], n=3)
        hint = f"; did you mean {' or '.join(dict.fromkeys(near))}" if near else ""
        raise UsageError(f"no rule {id_!r}{hint}; docs/diagnosis.md lists them")
    if as_json:
        print_json(rows)
        return 0
    for row in rows:
        print("\n".join(_told(row)))
    return 0


def _told(row: Row) -> Iterator[str]:
    yield f"{row.id}: {row.class_}, retry {row.retry}"
    yield f"  {row.advice}"
    yield f"  {ROLES[row.role]}; {ACCUSES[row.accuses]}"
    if row.source:
        yield f"  learnt from {row.source}"
    if row.line:
        yield f"  such as: {row.line}"
