"""
Which rank writes which piece of which tensor.

`torch.distributed.checkpoint`'s planner decides: it knows sharded tensors, and lets one rank write
what all ranks hold alike. We call its planner and not its `save`, which gathers and broadcasts the
whole plan with each save, and has each rank copy also what others write.
"""

from collections.abc import Mapping

import torch
from torch.distributed.checkpoint._dedup_save_plans import dedup_save_plans
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, WriteItem

from slurm_resilience.errors import CheckpointError
from slurm_resilience.training.nodes import Nodes
from slurm_resilience.training.peers import Failure, Peers

SAME, CHANGED, FAILED = 0, 1, 2


class Planning:
    """The plan, made anew only when some rank's tensors are not those of the last save."""

    def __init__(self, peers: Peers, nodes: Nodes) -> None:
        self._peers = peers
        self._nodes = nodes
        self._offered: list[WriteItem] | None = None
        self._mine = SavePlan([])
        self.metadata = Metadata({})
        """All tensors of all ranks; on rank 0 only."""

    def pieces(
        self, tensors: Mapping[str, torch.Tensor] | Failure
    ) -> list[tuple[WriteItem, torch.Tensor]]:
        """
        What this rank writes of *tensors* (or why it has none to offer); nothing is copied.

        Every rank has to come here. Raises `CheckpointError` on all of them where one failed.
        """
        planner = DefaultSavePlanner(flatten_state_dict=False)
        offered = SavePlan([])
        if isinstance(tensors, Failure):
            word = FAILED
        else:
            planner.set_up_planner(dict(tensors), is_coordinator=self._peers.rank == 0)
            offered = planner.create_local_plan()
            word = SAME if offered.items == self._offered else CHANGED
        worst = self._peers.most(word)
        if worst == FAILED:
            self._peers.shared(tensors if isinstance(tensors, Failure) else None)
        if worst == CHANGED:
            self._offered = None  # until the new plan stands
            self._mine = self._peers.dealt(offered, lambda plans: self._decide(planner, plans))
            self._offered = offered.items
        plan = planner.finish_plan(self._mine)
        return [(item, _tensor(planner, item)) for item in plan.items]

    def _decide(self, planner: DefaultSavePlanner, plans: list[SavePlan]) -> list[SavePlan]:
        try:
            decided, self.metadata = planner.create_global_plan(plans)
        except (ValueError, AssertionError) as error:
            raise CheckpointError(f"the ranks' tensors do not fit together: {error}") from error
        return decided if self._nodes.are_one else self._decided_by_node(plans)

    def _decided_by_node(self, plans: list[SavePlan]) -> list[SavePlan]:
        """What ranks on one node hold alike, one of them writes; and so on every node."""
        decided = list(plans)
        for ranks in self._nodes.groups:
            on_node = dedup_save_plans([plans[rank] for rank in ranks])
            for rank, plan in zip(ranks, on_node, strict=True):
                decided[rank] = plan
        return decided


def _tensor(planner: DefaultSavePlanner, item: WriteItem) -> torch.Tensor:
    data = planner.resolve_data(item)
    if not isinstance(data, torch.Tensor):
        raise CheckpointError(f"{item.index.fqn} is not a tensor")
    return data
