"""What tests of requeued jobs have to wait for."""

import time

from testbed import Cluster


def next_second(cluster: Cluster) -> None:
    """In the second in which a job ended on a node, Slurm fails it when it starts there again."""
    ended = time.time()
    cluster.wait_for(lambda: time.time() > ended + 1.1, describe="the next second")
