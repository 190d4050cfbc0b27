"""What a rule is."""

from collections.abc import Callable, Iterator

from slurm_resilience.node.facts import NodeFacts
from slurm_resilience.node.findings import Finding
from slurm_resilience.node.settings import NodeSettings

Rule = Callable[[NodeFacts, NodeSettings], Iterator[Finding]]
"""One fault; the function's name is the check's id, with hyphens. `kernel_log` finds those of many."""
