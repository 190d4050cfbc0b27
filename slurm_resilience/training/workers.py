"""Workers of a data loader that live through a notice."""

import os
import signal
from types import FrameType

from slurm_resilience.training.overheard import ear_of


def outlive_notice(_worker_id: int = 0) -> None:
    """
    For a data loader: `DataLoader(…, num_workers=4, worker_init_fn=outlive_notice)`.

    A notice by SIGTERM or SIGUSR2 often goes to a rank's whole process group. torch gives its
    workers a handler that ends them then, and the rank fails for want of data instead of saving.
    With this a worker ignores what its rank got too, and obeys what its rank sends it.
    """
    ear = ear_of(os.getppid())

    def take(signum: int, _: FrameType | None) -> None:
        if ear is None or not ear.was_parents(signum):
            if signum == signal.SIGTERM:
                os._exit(0)  # as torch's own handler does: else the rank takes it for a fault
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)

    for signum in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(signum, take)
