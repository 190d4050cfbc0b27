"""What is known of torch without torch is what torch says; what verify refuses, restore does not use."""

import json
from pathlib import Path

import msgspec
import pytest
import torch
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.planner import SavePlan

from slurm_resilience.checkpoint_files.index import ITEM_BYTES
from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.checkpoint_files.manifest import File, Manifest
from slurm_resilience.checkpoint_files.values import KINDS, Shape
from slurm_resilience.cli import main
from slurm_resilience.errors import CheckpointError
from slurm_resilience.training.drafting import Drafting, Written
from slurm_resilience.training.nodes import Nodes
from slurm_resilience.training.planning import Plan
from slurm_resilience.training.state import Values
from slurm_resilience.training.tree import BUILDERS
from tests.training.three_saves import restored, saved
from tests.whole import TENSORS, swap


def test_each_dtype_of_torch_is_known_with_its_size() -> None:
    """A newer torch may have more of them."""
    known = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}

    assert {str(one).removeprefix("torch."): one.itemsize for one in known} == ITEM_BYTES


def test_the_shape_of_values_is_that_of_what_is_saved() -> None:
    """Fields, and the kinds of what is in them."""
    fields = [[field.name for field in msgspec.structs.fields(one)] for one in (Values, Shape)]

    assert fields[0] == fields[1]
    assert {*BUILDERS, "tensor"} == KINDS


def test_restore_goes_back_behind_what_verify_refuses(tmp_path: Path) -> None:
    """Pieces that overlap and leave a hole: as many elements as the tensor, and not the tensor."""
    directory = saved(tmp_path / "c")
    path = directory / directory_name(5) / "index.json"
    index = json.loads(path.read_bytes())
    whole = index["tensors"]["model/first"]["pieces"][0]
    half = {**whole, "sizes": [100_000]}
    index["tensors"]["model/first"]["pieces"] = [half, {**half, "at": whole["at"] + 400_000}]
    swap(path, json.dumps(index).encode())

    status = main(["checkpoint", "verify", str(directory)])

    assert status == 1
    assert restored(directory) == (4, 3)


def test_no_save_makes_what_cannot_be_loaded() -> None:
    """Were a planner of torch to leave a hole, the save would fail, and not the way back."""
    planner = DefaultSavePlanner(flatten_state_dict=False)
    planner.set_up_planner({"model/x": torch.zeros(4)}, is_coordinator=True)
    _, metadata = planner.create_global_plan([planner.create_local_plan()])
    known = Manifest(1, 0, 1, saved_at=0.0, took_s=0.0, job="", files={})
    written = [Written({TENSORS: File(size_bytes=16, crc32=0)}, "n1")]

    with pytest.raises(CheckpointError, match="'model/x' has a hole"):
        Drafting(Nodes(0, ((0,),))).drafts(known, Plan(metadata, [SavePlan([])]), written)
