"""The run directory is written whole, and read without trust."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_resilience import run_directory
from slurm_resilience.errors import UntrustedFileError
from slurm_resilience.incident import Incident, Suspect

INCIDENT = Incident(
    job="12_3",
    attempt=1,
    kind="stall",
    class_="hardware",
    cause="rank-stopped",
    reason="rank 1 on n2 is stopped",
    retry="exclude-node",
    detected_at=1000.0,
    suspects=(Suspect("n2", "stopped", rank=1),),
)


def test_an_incident_reads_back_as_written(tmp_path: Path) -> None:
    """What the supervisor writes, the controller reads."""
    run_directory.write_incident(tmp_path, INCIDENT)

    assert run_directory.read_incident(tmp_path, 1, owner=os.geteuid()) == INCIDENT


def test_no_incident_is_none(tmp_path: Path) -> None:
    """A healthy attempt has no incident file."""
    assert run_directory.read_incident(tmp_path, 0) is None


@pytest.mark.parametrize("harm", ["torn", "link", "pipe", "huge", "folder", "other attempt"])
def test_a_file_that_cannot_be_trusted_is_refused_by_name(tmp_path: Path, harm: str) -> None:
    """Neither a torn nor a hostile file is used, and the refusal names it."""
    run_directory.write_incident(tmp_path, INCIDENT)
    path = tmp_path / "attempt-1" / "incident.json"
    if harm == "torn":
        path.write_bytes(path.read_bytes()[:100])
    elif harm == "other attempt":
        path.write_bytes(path.read_bytes().replace(b'"attempt": 1', b'"attempt": 2'))
    elif harm == "huge":
        os.truncate(path, 1 << 30)
    else:
        path.rename(path.with_name("elsewhere"))
        if harm == "link":
            path.symlink_to("elsewhere")
        elif harm == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir()

    with pytest.raises(UntrustedFileError, match=r"incident\.json"):
        run_directory.read_incident(tmp_path, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    """A job's incident must belong to the job's owner."""
    run_directory.write_incident(tmp_path, INCIDENT)
    os.chown(tmp_path / "attempt-1" / "incident.json", 12345, -1)

    with pytest.raises(UntrustedFileError, match="12345"):
        run_directory.read_incident(tmp_path, 1, owner=0)


@given(
    directory=st.text(st.characters(exclude_characters="\0\n", codec="utf-8"), min_size=1),
    others=st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1)),
)
def test_the_comment_keeps_what_others_wrote(directory: str, others: list[str]) -> None:
    """Our one token is replaced, a site's words stay in their order, any path survives."""
    path = Path("/runs") / directory.strip("/")
    comment = " ".join([*others, "slurm-resilience=old"])

    written = run_directory.with_run_directory(comment, path)

    assert written.split()[:-1] == others
    assert run_directory.run_directory_of(written, work_dir="/w", job="7") == path


@pytest.mark.parametrize("comment", ["slurm-resilience=/a%00b", "x slurm-resilience= y"])
def test_a_token_that_cannot_be_a_path_is_refused(comment: str) -> None:
    """In words that show it, not by an error of the file system's."""
    with pytest.raises(
        UntrustedFileError, match="its Comment names no path: 'slurm-resilience="
    ):
        run_directory.run_directory_of(comment, work_dir="/home/a", job="7")


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("", None),
        ("my-slurm-resilience", None),
        ("slurm-resilience", Path("/home/a/slurm-resilience/12_3")),
        ("x slurm-resilience=runs/%j y", Path("/home/a/runs/12_3")),
        ("slurm-resilience=/fast/a%20b", Path("/fast/a b")),
    ],
)
def test_the_comment_names_the_run_directory(comment: str, expected: Path | None) -> None:
    """The bare word has a default; a path may hold %j and is relative to the working directory."""
    found = run_directory.run_directory_of(comment, work_dir="/home/a", job="12_3")

    assert found == expected
