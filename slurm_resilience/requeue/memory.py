"""What the controller remembers between ticks, through the ledger; it can do without."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from slurm_resilience.errors import LedgerError
from slurm_resilience.ledger import KEEP_S, Ledger
from slurm_resilience.plain import plain
from slurm_resilience.requeue.facts import Excluded, JobFacts
from slurm_resilience.requeue.incidents import History
from slurm_resilience.requeue.mark import marked
from slurm_resilience.requeue.policy import Exclude, StartNow, Step
from slurm_resilience.requeue.prose import line
from slurm_resilience.requeue.settings import RequeueSettings
from slurm_resilience.slurm.values import Job

log = logging.getLogger(__name__)

EARLY = "early-start"
"""A requeue delay lifted without an incident that asked for it."""
TIDY_EVERY_S = 24 * 3600.0


class Memory:
    """Keeps what was seen and done. A ledger that fails is said once and gone without."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._trouble = ""
        self._tidied_at = 0.0
        self._refusals: dict[tuple[str, int], str] = {}
        self._pending: dict[tuple[str, int], float] = {}

    def saw(self, jobs: Sequence[Job], now: float) -> None:
        """Remember which nodes the running attempts have, and since when the others wait."""
        known = {(job.id, job.restarts) for job in jobs}
        self._pending = {key: at for key, at in self._pending.items() if key in known}
        self._refusals = {key: why for key, why in self._refusals.items() if key in known}
        for job in jobs:
            self._saw_waiting(job, now)
        with self._tolerant():
            self._ledger.saw_attempts(job for job in jobs if job.is_running)
        if now - self._tidied_at > TIDY_EVERY_S:
            self._tidied_at = now
            with self._tolerant():
                self._ledger.forget(before=now - KEEP_S)

    def recall(
        self, job: Job, history: History, settings: RequeueSettings, now: float
    ) -> JobFacts:
        """Everything known of *job* as it stands now."""
        self._saw_waiting(job, now)
        facts = JobFacts(
            job,
            history=history.incidents,
            unread=history.unread,
            untrusted=history.untrusted,
            pending_since=self._pending.get((job.id, job.restarts)),
            refused=self._refusals.get((job.id, job.restarts), ""),
        )
        with self._tolerant():
            for incident in history.incidents[-1:]:
                self._ledger.saw_incident(incident, at=now)
            since = now - settings.early_starts_window_s
            ours = self._ledger.exclusions(job.id)
            return replace(
                facts,
                last_nodes=self._ledger.nodes_of(job.id, job.restarts - 1),
                ours=tuple(Excluded(node, at) for node, at in ours.items()),
                early_starts=self._ledger.count_decisions(job.id, step=EARLY, since=since),
            )
        return facts

    def keep(self, facts: JobFacts, step: Step, now: float) -> None:
        """Remember a step, before it is taken: a crash may follow."""
        job = facts.job
        is_early = isinstance(step, StartNow) and marked(job.comment) is None
        name = EARLY if is_early else type(step).__name__
        with self._tolerant():
            because = plain(line(step))
            self._ledger.decided(job.id, job.restarts, step=name, because=because, at=now)
            if isinstance(step, Exclude):
                theirs = set(job.excluded) - {one.node for one in facts.ours}
                ours = [node for node in step.nodes if node not in theirs]
                self._ledger.set_exclusions(job.id, ours, at=now)

    def keep_refusal(self, facts: JobFacts) -> None:
        """Remember that Slurm will not have this attempt's excluded nodes."""
        if facts.refused:
            self._refusals[facts.job.id, facts.job.restarts] = facts.refused

    def _saw_waiting(self, job: Job, now: float) -> None:
        if job.is_pending:
            self._pending.setdefault((job.id, job.restarts), now)

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        try:
            yield
        except LedgerError as error:
            if str(error) != self._trouble:
                log.warning("goes on without remembering: %s", error)
            self._trouble = str(error)
