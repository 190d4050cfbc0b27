"""Sound checkpoints without a training, and how to sign what was changed in them."""

from pathlib import Path

import msgspec

from slurm_resilience.checkpoint_files import manifest as manifests
from slurm_resilience.checkpoint_files.digest import digest
from slurm_resilience.checkpoint_files.index import Index, Piece, Tensor
from slurm_resilience.checkpoint_files.listing import directory_name
from slurm_resilience.checkpoint_files.manifest import Manifest
from slurm_resilience.checkpoint_files.values import Shape

TENSORS, VALUES = manifests.tensors_name(0), manifests.values_name(0)


def checkpoint(
    directory: Path, step: int, *, poison: str = "", content: bytes = b"content"
) -> Path:
    """A sound one, of one rank with one tensor that holds the *step* and the *content*."""
    path = directory / directory_name(step)
    path.mkdir()
    data = b"%d %s" % (step, content)
    piece = Piece((0,), (len(data),), TENSORS, 0)
    index = Index({"model/x": Tensor("uint8", (len(data),), (piece,))})
    (path / TENSORS).write_bytes(data)
    (path / VALUES).write_bytes(msgspec.msgpack.encode(Shape({}, b"\xc0")))
    (path / manifests.INDEX).write_bytes(msgspec.json.encode(index))
    files = {file.name: digest(file) for file in path.iterdir()}
    manifest = Manifest(
        format=1, step=step, world_size=1, saved_at=1.0, took_s=0.5, job="7", files=files,
        poison=poison,
    )  # fmt: skip
    (path / manifests.NAME).write_bytes(manifests.encoded(manifest))
    return path


def swap(path: Path, data: bytes) -> None:
    """Put other content into a file and sign it in the manifest, as one who means harm would."""
    path.write_bytes(data)
    manifest = manifests.read(path.parent)
    files = {**manifest.files, path.name: digest(path)}
    signed = msgspec.structs.replace(manifest, files=files)
    (path.parent / manifests.NAME).write_bytes(manifests.encoded(signed))
