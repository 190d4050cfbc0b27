"""
The door to object storage: a place under a URL, through fsspec (`s3://…`, `gs://…`, `file://…`).

Whatever a backend raises becomes a `CheckpointCopyError` that names the URL. Credentials and endpoints
are the backend's affair: for S3 the AWS variables and files.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from slurm_resilience.errors import CheckpointCopyError, UsageError
from slurm_resilience.plain import plain

BLOCK_BYTES = 8 << 20
"""Of each file under way, so many bytes are in memory."""
INSTALL = "pip install 'slurm-resilience[remote]', and s3fs for s3:// or gcsfs for gs://"
MOST_SHOWN = 300
PART = re.compile(r"/part-\d{5,}$")
"""A folder of one node's parts, beneath the place of the training."""
# One slash too few, and fsspec takes it for the name of a folder here.
_URL = re.compile(r"([a-z][a-z0-9+.-]*(?:::[a-z][a-z0-9+.-]*)*)://(?:[^/\s]|(?<=file://)/)")


def check_url(url: object) -> None:
    """Raise `UsageError` where *url* is none, or of a kind that fsspec does not know."""
    told = plain(str(url), most=MOST_SHOWN)
    if not isinstance(url, str) or not (kind := _URL.match(url)):
        raise UsageError(
            f"copies to {told}: that is no URL; s3://bucket/path is one, or file:///path"
        )
    try:
        from fsspec import available_protocols  # noqa: PLC0415 - only who copies needs it
    except ImportError as error:
        raise UsageError(f"copies to {told} need fsspec: {INSTALL}") from error
    known = available_protocols()
    if unknown := [name for name in kind[1].split("::") if name not in known]:
        raise UsageError(f"copies to {told}: fsspec knows no {unknown[0]!r}; {INSTALL}")


class Foreign(Exception):  # noqa: N818 - carries an error, is none
    """An error of whoever gives the blocks, on its way through a backend."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Store:
    """
    Files by name beneath a URL.

    Its last folder is made where it is missing; what that lies in, and a bucket, never: a name that
    was mistyped would look like a place without copies.
    """

    def __init__(self, url: str) -> None:
        """Raises `UsageError` where it is no URL, or no backend is installed for it."""
        check_url(url)
        from fsspec.core import url_to_fs  # noqa: PLC0415 - only who copies needs it

        self.url = url.rstrip("/")
        try:
            # Listings of an earlier moment would hide what is there now.
            found: tuple[Any, str] = url_to_fs(self.url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise UsageError(f"copies to {plain(url)}: {error}; {INSTALL}") from error
        self._files, self._root = found

    def names(self) -> list[str]:
        """
        What lies directly in it: the last part of each name.

        Raises `CheckpointCopyError` where it is a file, or what it lies in is not there.
        """
        with self._told("listing"):
            try:
                kind = self._files.info(self._root)["type"]
            except FileNotFoundError:
                self._check_what_it_lies_in()
                return []
            if kind != "directory":
                raise CheckpointCopyError(
                    f"{plain(self.url, most=MOST_SHOWN)} is a file; copies need a folder"
                )
            listed = self._files.ls(self._root, detail=False)
            return sorted({str(one).rstrip("/").rpartition("/")[2] for one in listed})

    def sizes(self, folder: str) -> dict[str, int]:
        """Bytes of each file in a folder by name; empty where there is none."""
        with self._told(folder):
            try:
                listed = self._files.ls(f"{self._root}/{folder}", detail=True)
            except FileNotFoundError:
                return {}
            return {
                str(one["name"]).rpartition("/")[2]: int(one["size"] or 0)
                for one in listed
                if one["type"] == "file"
            }

    def read(self, name: str, *, most_bytes: int) -> bytes:
        """A small file; `CheckpointCopyError` where it is larger than *most_bytes*."""
        data = b""
        for block in self.blocks(name):
            data += block
            if len(data) > most_bytes:
                raise CheckpointCopyError(
                    f"{self._shown(name)} is larger than {most_bytes} bytes"
                )
        return data

    def blocks(self, name: str) -> Iterator[bytes]:
        """The content of a file, from its beginning."""
        with (
            self._told(name),
            self._files.open(
                f"{self._root}/{name}", "rb", block_size=BLOCK_BYTES, cache_type="none"
            ) as file,
        ):
            while data := file.read(BLOCK_BYTES):
                yield data

    def write(self, name: str, blocks: Iterable[bytes]) -> None:
        """Put a file there; what *blocks* raises passes, and leaves part of a file."""
        with self._told(name):
            if self._has_folders:
                self._check_what_it_lies_in()
                folder = f"{self._root}/{name}".rpartition("/")[0]
                self._files.makedirs(folder, exist_ok=True)
            with self._files.open(f"{self._root}/{name}", "wb", block_size=BLOCK_BYTES) as file:
                for block in blocks:
                    file.write(block)

    def delete(self, name: str, *, folder: bool = False) -> None:
        """Delete a file, or a folder with all that is in it; nothing where there is none."""
        with self._told(name):
            try:
                self._files.rm(f"{self._root}/{name}", recursive=folder)
            except FileNotFoundError:
                return

    @property
    def _has_folders(self) -> bool:
        """Else there are buckets, and in them names with slashes."""
        return self._root.startswith("/")

    def _check_what_it_lies_in(self) -> None:
        place = PART.sub("", self._root)
        outer = place.rpartition("/")[0] or "/" if self._has_folders else place.split("/")[0]
        try:
            self._files.info(outer)
        except FileNotFoundError as error:
            what = (
                f"{outer} does not exist; is its file system mounted?"
                if self._has_folders
                else f"there is no bucket {outer}; make it, or correct the name"
            )
            raise CheckpointCopyError(
                f"{plain(self.url, most=MOST_SHOWN)}: {plain(what, most=MOST_SHOWN)}"
            ) from error
        except PermissionError:  # it is there; we may only look further down
            return

    @contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except (CheckpointCopyError, Foreign):
            raise
        except Exception as error:  # each backend has exceptions of its own
            why = " ".join(str(error).split()) or type(error).__name__
            raise CheckpointCopyError(
                f"{self._shown(name)}: {plain(why, most=MOST_SHOWN)}"
            ) from error

    def _shown(self, name: str) -> str:
        return plain(f"{self.url}/{name}", most=MOST_SHOWN)
