"""After the step: what happened, what is left for the controller, and the exit status."""

import logging
import signal
import time

from slurm_resilience.config import Config
from slurm_resilience.errors import SlurmError
from slurm_resilience.incident import Incident
from slurm_resilience.launch.job import ThisJob
from slurm_resilience.launch.outcome import Outcome, incident_of, status_of
from slurm_resilience.launch.records import RECORD_S, Records
from slurm_resilience.requeue.inside import is_claimed, requeue_own_job
from slurm_resilience.requeue.rules import budget_spent
from slurm_resilience.signals import Caught
from slurm_resilience.slurm.door import Slurm
from slurm_resilience.slurm.values import Job

LOOK_EVERY_S = 0.2

log = logging.getLogger(__name__)


class Ending:
    """The last part of a `run`."""

    def __init__(
        self, this: ThisJob, config: Config, slurm: Slurm, records: Records, flags: Caught
    ) -> None:
        self._this, self._config, self._slurm = this, config, slurm
        self._records, self._flags = records, flags

    def status(self, outcome: Outcome) -> int:
        """Leave what there is to leave, see that the job comes back; the exit status."""
        known = self._ask()
        incident = incident_of(outcome, known)
        if incident is not None:
            if outcome.incident is None:
                self._records.incident(incident, wait_s=RECORD_S)
                log.error(
                    "%s job %s: %s", incident.kind.upper(), self._this.id, incident.reason
                )
            self._go_on(incident, known)
        elif outcome.is_terminated:
            log.info("job %s: ended from outside; nothing is left on its nodes", self._this.id)
        return status_of(outcome, incident)

    def _go_on(self, incident: Incident, known: Job | None) -> None:
        if incident.retry == "stop":
            log.error("job %s is not tried again: %s", self._this.id, incident.reason)
        elif known is not None and not known.can_requeue:
            log.error("job %s cannot come back: submitted with --no-requeue", self._this.id)
        elif signal.SIGTERM in self._flags:
            self._go_on_while_ended(incident, known)
        elif incident.retry == "leave":
            self._leave(incident, known)
        elif not self._is_claimed():
            self._requeue(incident)

    def _go_on_while_ended(self, incident: Incident, known: Job | None) -> None:
        """Slurm is ending the job. At its time limit nobody brings it back; else somebody wants
        it so: a controller, an administrator, or its owner, whose scancel is the last word."""
        if known is not None and known.reason == "TimeLimit" and incident.retry != "leave":
            self._requeue(incident)

    def _leave(self, incident: Incident, known: Job | None) -> None:
        """
        Slurm ends a preempted job when its grace is over, and brings it back. One that stops
        before that is not brought back on 22.05, and held after a few times on later versions:
        so it asks for it itself, which also makes room sooner.
        """
        if known is not None and known.preempted_at is not None:
            self._requeue(incident)
        else:
            log.info("job %s: Slurm does not say that it was preempted; it ends", self._this.id)

    def _is_claimed(self) -> bool:
        """
        Whether somebody else brings the job back: a controller, which says so in the Comment and
        is waited for while that stands, as long as a live one may take; or whoever has ended the
        attempt by now.
        """
        log.info("job %s: waits for a controller to bring it back", self._this.id)
        claim_s = self._config.watch.claim_s
        until = time.monotonic() + self._config.requeue.node_down_s + claim_s
        while not self._is_terminated_within(claim_s):
            known = self._ask()
            if known is None:
                return False
            if self._is_over(known):
                return True
            if not is_claimed(known) or time.monotonic() > until:
                return False
        return True

    def _is_over(self, known: Job) -> bool:
        """Whether Slurm has ended this attempt."""
        return not known.is_running or known.restarts != self._this.attempt

    def _is_terminated_within(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if signal.SIGTERM in self._flags:
                return True
            time.sleep(LOOK_EVERY_S)
        return False

    def _requeue(self, incident: Incident) -> None:
        """Go back by itself, with Slurm's own delay; held where another attempt is no use."""
        before = self._records.incidents_before(self._this.attempt, wait_s=RECORD_S)
        spent = budget_spent([*before, incident], self._config.requeue)
        exclude = [] if spent else [one.node for one in incident.suspects]
        hold = bool(spent) or incident.retry == "hold"
        try:
            requeue_own_job(self._slurm, self._this.id, exclude=exclude, hold=hold)
        except SlurmError as error:
            known = self._ask()
            if known is not None and known.restarts != self._this.attempt:
                log.info("job %s: it is back in the queue (%s)", self._this.id, error)
            else:
                log.error("job %s: requeue: %s", self._this.id, error)
        else:
            if hold:
                why = spent or incident.reason
                log.error("job %s: held until somebody releases it: %s", self._this.id, why)
            else:
                log.info(
                    "job %s: requeues itself; Slurm starts it in about 2 minutes", self._this.id
                )

    def _ask(self) -> Job | None:
        try:
            return self._slurm.job(self._this.id)
        except SlurmError as error:
            log.warning("Slurm does not tell about job %s: %s", self._this.id, error)
            return None
