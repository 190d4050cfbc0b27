"""What is added to the files that ranks have written, so that they become one checkpoint."""

import secrets
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.index import check
from slurm_resilience.checkpoint_files.manifest import File, Manifest, Part
from slurm_resilience.training.index import indexed
from slurm_resilience.training.nodes import Nodes
from slurm_resilience.training.planning import Plan


class Written(NamedTuple):
    """What one rank has written."""

    files: dict[str, File]
    node: str
    poison: str = ""
    """Which NaN or infinity is among them; empty: none was seen."""


class Draft(NamedTuple):
    """What one rank adds to what all have written, so that a directory becomes a checkpoint."""

    manifest: Manifest
    index_json: bytes


class Drafting:
    """Of rank 0: an index lasts as long as the plan that it tells of."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._plan: Plan | None = None
        self._indexes: list[bytes] = []

    def drafts(self, known: Manifest, plan: Plan, written: Sequence[Written]) -> list[Draft]:
        """
        By rank, what it adds to what all have *written* by *plan*: those that lead, manifest and
        index of the checkpoint or of their node's part of it; to the others is only told what is
        *known*.

        Raises `CheckpointError` where the pieces make no index that can be loaded.
        """
        groups = self._nodes.groups
        if plan is not self._plan:
            self._indexes = [self._index(plan, written, ranks) for ranks in groups]
            self._plan = plan
        by_rank, whole = [Draft(known, b"")] * len(written), secrets.token_hex(8)
        for ranks, text in zip(groups, self._indexes, strict=True):
            files = _files(written, ranks)
            files[manifests.INDEX] = File(size_bytes=len(text), crc32=zlib.crc32(text))
            is_part = not self._nodes.are_one
            part = Part(whole, written[ranks[0]].node, ranks) if is_part else None
            manifest = msgspec.structs.replace(known, files=files, part=part)
            by_rank[ranks[0]] = Draft(manifest, text)
        return by_rank

    def _index(self, plan: Plan, written: Sequence[Written], ranks: Sequence[int]) -> bytes:
        index = indexed(plan.metadata, {rank: plan.by_rank[rank] for rank in ranks})
        check(index, _files(written, ranks), partial=not self._nodes.are_one)
        return msgspec.json.encode(index)


def _files(written: Sequence[Written], ranks: Sequence[int]) -> dict[str, File]:
    return {name: file for rank in ranks for name, file in written[rank].files.items()}
