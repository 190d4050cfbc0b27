"""
Which rank writes which piece of which tensor.

`torch.distributed.checkpoint`'s planner decides: it knows sharded tensors, and lets one rank write
what all ranks hold alike. We call its planner and not its `save`, which plans anew, and gathers and
broadcasts the whole plan, with each save, and has each rank copy also what others write.
"""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import torch
from torch.distributed.checkpoint._dedup_save_plans import dedup_save_plans
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan, WriteItem, WriteItemType

from slurm_resilience.errors import CheckpointError
from slurm_resilience.training.alike import Sample, refuse_differences, samples
from slurm_resilience.training.index import shapes
from slurm_resilience.training.nodes import Nodes
from slurm_resilience.training.peers import Failure, Peers
from slurm_resilience.training.state import Captured, is_sharded

SAME, CHANGED, FAILED = 0, 1, 2


class Offer(NamedTuple):
    """What one rank could write."""

    plan: SavePlan
    samples: dict[str, Sample]
    buffers: frozenset[str]


class Plan(NamedTuple):
    """What all ranks write."""

    metadata: Metadata
    by_rank: list[SavePlan]


class Planning:
    """The plan, made anew only when some rank's tensors are not those of the last save."""

    def __init__(self, peers: Peers, nodes: Nodes) -> None:
        self._peers = peers
        self._nodes = nodes
        self._planner = DefaultSavePlanner(
            flatten_state_dict=False, flatten_sharded_tensors=False
        )
        self._planned_for: list[tuple[object, ...]] | None = None
        self._items: list[WriteItem] = []
        self.plan = Plan(Metadata({}), [])
        """The same object from save to save while it holds; on rank 0 only."""

    @property
    def names(self) -> list[str]:
        """Of the tensors of which this rank writes `pieces`."""
        return [item.index.fqn for item in self._items]

    def made(self, step: int, capture: Callable[[], Captured]) -> Captured:
        """
        What *capture* returns, the plan being made for its tensors.

        Every rank has to come here. Raises its error on all of them where *capture* fails on one;
        `CheckpointError` where they are not at the same *step*: a checkpoint would hold some of one
        step and some of another; or where one would write for all what is not the same on all.
        """

        def offer() -> tuple[Captured, list[tuple[object, ...]]]:
            captured = capture()
            self._planner.set_up_planner(
                dict(captured.tensors), is_coordinator=self._peers.rank == 0
            )
            return captured, _signature(captured.tensors)

        offered = self._peers.tried(offer)
        if isinstance(offered, Failure):
            word = FAILED
        else:
            word = SAME if offered[1] == self._planned_for else CHANGED
        worst, last, first = self._peers.largest(word, step, -step)
        if worst == FAILED or isinstance(offered, Failure):
            self._peers.shared(offered if isinstance(offered, Failure) else None)
            raise CheckpointError("a rank failed")  # which the others have said by now
        if last + first:
            raise CheckpointError(
                f"the ranks are not at the same step, but at {-first} to {last}: call run.step with "
                "the same steps on each, and give all the same Checkpoints(...)"
            )
        captured, signature = offered
        if worst == CHANGED:
            self._planned_for = None  # until the new plan stands
            mine = self._peers.tried(
                lambda: Offer(
                    self._planner.create_local_plan(),
                    samples(captured.tensors, captured.guarded),
                    captured.buffers,
                )
            )
            self._items = self._peers.dealt(mine, self._decide).items
            self._planned_for = signature
        return captured

    def pieces(self) -> list[torch.Tensor]:
        """What this rank writes; live, nothing is copied."""
        found = [self._planner.resolve_data(item) for item in self._items]
        pieces = [piece for piece in found if isinstance(piece, torch.Tensor)]
        if [(piece.shape, piece.dtype) for piece in pieces] != shapes(self._items):
            raise CheckpointError("the state is not what was planned for")
        return pieces

    def _decide(self, offers: list[Offer]) -> list[SavePlan]:
        offered = [offer.plan for offer in offers]
        for ranks in self._nodes.groups:
            refuse_differences([offer.samples for offer in offers], ranks)
            theirs = {item.index.fqn for item in offered[ranks[0]].items}
            for rank in ranks[1:]:
                offered[rank] = _without(offered[rank], offers[rank].buffers & theirs)
        try:
            decided, metadata = self._planner.create_global_plan(offered)
        except (ValueError, AssertionError) as error:
            raise CheckpointError(f"the ranks' tensors do not fit together: {error}") from error
        if not self._nodes.are_one:
            decided = self._decided_by_node(offered)
        self.plan = Plan(metadata, decided)
        return decided

    def _decided_by_node(self, offered: list[SavePlan]) -> list[SavePlan]:
        """What ranks on one node hold alike, one of them writes; and so on every node."""
        decided = list(offered)
        for ranks in self._nodes.groups:
            on_node = dedup_save_plans([offered[rank] for rank in ranks])
            for rank, plan in zip(ranks, on_node, strict=True):
                decided[rank] = plan
        return decided


def _without(plan: SavePlan, names: Collection[str]) -> SavePlan:
    """
    Buffers come from one rank: that of DistributedDataParallel, which gives its own to the others at
    the next step. From here and there they would be of none.
    """
    items = [
        item
        for item in plan.items
        if item.index.fqn not in names or item.type is WriteItemType.SHARD
    ]
    return dataclasses.replace(plan, items=items)


def _signature(tensors: Mapping[str, torch.Tensor]) -> list[tuple[object, ...]]:
    """What a plan depends on: to compare it costs a small part of planning."""
    return [
        (name, tensor.shape, tensor.dtype, *_spread(tensor)) for name, tensor in tensors.items()
    ]


def _spread(tensor: torch.Tensor) -> tuple[object, ...]:
    """How *tensor* is spread over the ranks."""
    if is_sharded(tensor):
        sharded: Any = tensor
        return (sharded.device_mesh, sharded.placements)
    # Of another kind with shards of its own nothing is known: planned anew each time.
    return (object(),) if hasattr(tensor, "local_shards") else ()
