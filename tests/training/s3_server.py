"""A real HTTP server that speaks S3."""

import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

from tests.missing import missing
from tests.training.ranks import wait_for


class S3(NamedTuple):
    """A server, and the environment in which s3fs finds it."""

    process: "subprocess.Popen[bytes]"
    environment: dict[str, str]
    address: str


def started() -> S3:
    """A server of its own, with nothing in it but an empty bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "moto.server", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    environment = {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
    }
    wait_for(lambda: answers(f"{address}/bucket", "PUT"), within_s=60)
    return S3(process, environment, address)


def answers(url: str, method: str) -> bool:
    """Whether somebody says yes."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False


def serving() -> Iterator[S3]:
    """For a fixture: a server, while it lasts."""
    for library in ("moto", "s3fs", "flask_cors"):
        if find_spec(library) is None:
            missing(f"{library} is not installed")
    server = started()
    yield server
    server.process.kill()
    server.process.wait()
