"""A real Slurm cluster on one machine."""

from testbed.cluster import Cluster
from testbed.errors import TestbedError
from testbed.layout import Spec

__all__ = ["Cluster", "Spec", "TestbedError"]
