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
                self._leave(incident)
            self._go_on(incident, known)
        return status_of(outcome, incident)

    def _leave(self, incident: Incident) -> None:
        self._records.incident(incident, wait_s=RECORD_S)
        log.error("%s job %s: %s", incident.kind.upper(), self._this.id, incident.reason)

    def _go_on(self, incident: Incident, known: Job | None) -> None:
        if incident.retry == "stop":
            log.error("job %s is not tried again: %s", self._this.id, incident.reason)
        elif incident.retry == "leave":
            log.info("job %s: Slurm brings it back", self._this.id)
        elif known is not None and not known.can_requeue:
            log.error(
                "job %s cannot come back: it was submitted with --no-requeue", self._this.id
            )
        elif self._is_claimed():
            log.info("job %s: on its way back to the queue", self._this.id)
        else:
            self._requeue(incident)

    def _is_claimed(self) -> bool:
        """Whether a controller takes the job: Slurm's SIGTERM is how one sees that."""
        until = time.monotonic() + self._config.watch.claim_s
        while time.monotonic() < until:
            if signal.SIGTERM in self._flags:
                return True
            time.sleep(LOOK_EVERY_S)
        return False

    def _requeue(self, incident: Incident) -> None:
        """No controller takes the job: it goes back by itself, with Slurm's own delay."""
        exclude = [one.node for one in incident.suspects]
        log.info("job %s: no controller takes it; it requeues itself", self._this.id)
        try:
            self._slurm.requeue(self._this.id, hold=incident.retry == "hold")
            if exclude:
                self._slurm.set_excluded(self._this.id, exclude)
        except SlurmError as error:
            log.error("job %s cannot be requeued: %s", self._this.id, error)

    def _ask(self) -> Job | None:
        try:
            return self._slurm.job(self._this.id)
        except SlurmError as error:
            log.warning("Slurm does not tell about job %s: %s", self._this.id, error)
            return None
