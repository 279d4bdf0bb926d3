"""MongoDB's own server in a container, where a Docker engine answers: for tests that want the real thing."""

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from afl_stream.broker.ports import HOST, free_ports

#: That of docker-compose.yml.
IMAGE = "mongo:8.0"

_SET_NAME = "afl"
_START_TIMEOUT_S = 120.0
_PING = "import docker; docker.from_env(timeout=10).ping()"


class DockerMissing(Exception):
    """No Docker engine, no testcontainers to talk to it, or no server that comes up in it."""


def mongodb_in_docker(*, standalone: bool = False) -> AbstractContextManager[str]:
    """Return a context that runs a server in a container and gives its url. Raises DockerMissing at once.

    It is a replica set of one node, or, `standalone`, a server without transactions. Entering raises DockerMissing when
    the image cannot be had, or the server does not come up.
    """
    if importlib.util.find_spec("testcontainers") is None:
        raise DockerMissing("testcontainers is not installed")
    # In a process of its own: the Docker client leaves its socket open when no engine answers.
    ping = subprocess.run([sys.executable, "-c", _PING], capture_output=True, check=False)
    if ping.returncode != 0:
        raise DockerMissing("no Docker engine answers")
    return _running(standalone)


def container_command(port: int, standalone: bool) -> str:
    """Return the server's arguments. It is at the same address inside and outside: a set tells it its clients."""
    own = "" if standalone else f" --replSet {_SET_NAME} --setParameter transactionLifetimeLimitSeconds=10"
    return f"--bind_ip_all --port {port}{own}"


def set_configuration(port: int) -> dict[str, Any]:
    """Return the configuration of a replica set of this one node."""
    return {"_id": _SET_NAME, "members": [{"_id": 0, "host": f"{HOST}:{port}"}]}


@contextmanager
def _running(standalone: bool) -> Iterator[str]:
    from testcontainers.core.container import DockerContainer

    [port] = free_ports(1)
    container = DockerContainer(IMAGE).with_bind_ports(port, port).with_command(container_command(port, standalone))
    try:
        container.start()
    except Exception as error:
        # The client's errors are of many kinds: no image, no network, no rights.
        raise DockerMissing(f"no container of {IMAGE}: {error}") from error
    try:
        _await_writable(port, standalone)
        yield f"mongodb://{HOST}:{port}"
    finally:
        container.stop()


def _await_writable(port: int, standalone: bool) -> None:
    end_s, pause, is_made = time.monotonic() + _START_TIMEOUT_S, Event(), standalone
    url = f"mongodb://{HOST}:{port}/?directConnection=true&serverSelectionTimeoutMS=1000"
    with MongoClient[dict[str, Any]](url) as client:
        while True:
            try:
                if not is_made:
                    client.admin.command("replSetInitiate", set_configuration(port))
                    is_made = True
                if client.admin.command("hello")["isWritablePrimary"]:
                    return
            except PyMongoError as error:
                if time.monotonic() > end_s:
                    raise DockerMissing(f"{IMAGE} does not answer at {HOST}:{port}: {error}") from error
            if time.monotonic() > end_s:
                raise DockerMissing(f"{IMAGE} takes no writes at {HOST}:{port}")
            pause.wait(0.2)
