"""Commands of `status`: what happened to jobs that take part."""

import argparse
import os
import time
from collections.abc import Iterator

from slurm_resilience import config
from slurm_resilience.cli.printing import print_json
from slurm_resilience.comment import takes_part
from slurm_resilience.errors import UsageError
from slurm_resilience.incident import Heartbeats, Incident
from slurm_resilience.plain import plain
from slurm_resilience.slurm.connect import connect
from slurm_resilience.story import Attempt, Story, tell

MOST_OF_ONE = 300
"""Characters of one part of a line, so that what follows it is seen too."""


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add this group's commands."""
    parser = commands.add_parser(
        "status",
        help="what happened to a job so far",
        description="Attempts, progress and incidents of one job, or of all your jobs that take "
        "part (as root: of everybody's).",
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help="12, or 12_3 for an array task")
    parser.add_argument(
        "--json", action="store_true", help="one JSON document and nothing else"
    )
    parser.set_defaults(do=_run)


def _run(arguments: argparse.Namespace) -> int:
    settings = config.load()
    slurm = connect(settings.slurm)
    is_root = os.geteuid() == 0
    if arguments.job is not None:
        job = slurm.job(arguments.job)
        if job is None:
            raise UsageError(
                f"job {arguments.job}: Slurm knows it no more; look into its run directory"
            )
        jobs = [job]
    else:
        known = slurm.jobs(user_id=None if is_root else os.getuid())
        jobs = [job for job in known if takes_part(job.comment)]
    stories = tell(jobs, as_owner=is_root, timeout_s=settings.requeue.read_timeout_s)
    if arguments.json:
        print_json(stories)
    else:
        now = time.time()
        for story in stories:
            print("\n".join(plain(line) for line in _lines(story, now)))
    return 0


def _lines(story: Story, now: float) -> Iterator[str]:
    job = story.job
    words = [f"job {job.id}", job.state, f"attempt {job.restarts}"]
    if job.nodes:
        words.append(f"on {','.join(job.nodes)}")
    if job.state == "PENDING":
        words.append(f"({job.reason or 'no reason'})")
    if job.excluded:
        words.append(f"without {','.join(job.excluded)}")
    yield " ".join(words)
    if story.unread:
        yield f"  {': '.join(filter(None, (story.run_directory, story.unread)))}"
    elif not story.run_directory:
        yield "  takes no part: its Comment does not say slurm-resilience"
    elif not story.attempts:
        yield f"  {story.run_directory}: nothing there yet"
    for attempt in story.attempts:
        yield f"  attempt {attempt.attempt}: {_attempt(attempt, now)}"


def _attempt(attempt: Attempt, now: float) -> str:
    if attempt.untrusted:
        return attempt.untrusted
    told = [
        _progress(attempt.heartbeats, now) if attempt.heartbeats else "",
        _incident(attempt.incident) if attempt.incident else "",
    ]
    return "; ".join(part for part in told if part) or "nothing told yet"


def _progress(heartbeats: Heartbeats, now: float) -> str:
    if not heartbeats.ranks:
        return "no rank has reported"
    steps = [rank.step for rank in heartbeats.ranks]
    span = f"{min(steps)}" if min(steps) == max(steps) else f"{min(steps)} to {max(steps)}"
    saved = min(rank.saved_step for rank in heartbeats.ranks)
    kept = f"step {saved} saved" if saved >= 0 else "nothing saved yet"
    age_s = max(0.0, now - heartbeats.at)
    return f"{len(steps)} ranks at step {span}, {kept}, {age_s:.0f} s ago"


def _incident(incident: Incident) -> str:
    suspects = ",".join(dict.fromkeys(suspect.node for suspect in incident.suspects))
    accused = f", suspects {plain(suspects, most=MOST_OF_ONE)}" if suspects else ""
    reason = plain(incident.reason, most=MOST_OF_ONE)
    return f"{incident.kind} ({incident.class_}): {reason} -> {incident.retry}{accused}"
