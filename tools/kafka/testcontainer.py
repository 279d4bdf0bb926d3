"""The same broker in a container: for a machine with a Docker engine and without Java or jars."""

import importlib.util
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event

from afl_stream.broker.errors import LocalBrokerError, NotInstalled
from afl_stream.broker.ports import HOST, free_ports
from afl_stream.broker.ready import answering_cluster
from afl_stream.broker.settings import DEFAULTS, new_cluster_id, replication

#: The version of the jars in pom.xml.
IMAGE = "apache/kafka:4.4.0"

_START_TIMEOUT_S = 120.0
_PING = "import docker; docker.from_env(timeout=10).ping()"


class DockerMissing(NotInstalled):
    """No Docker engine, or no testcontainers to talk to it."""


def broker_in_docker() -> AbstractContextManager[str]:
    """Return a context that runs a broker in a container and gives its address. Raises DockerMissing at once."""
    if importlib.util.find_spec("testcontainers") is None:
        raise DockerMissing("testcontainers is not installed")
    # In a process of its own: the Docker client leaves its socket open when no engine answers.
    ping = subprocess.run([sys.executable, "-c", _PING], capture_output=True, check=False)
    if ping.returncode != 0:
        raise DockerMissing("no Docker engine answers")
    return _running()


def container_environment(port: int, cluster_id: str) -> dict[str, str]:
    """Return the environment of a container whose port 9092 is bound to `port` of this machine."""
    properties = {
        **DEFAULTS,
        # Clients outside the container come to the port that it was bound to.
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@localhost:9093",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "node.id": "1",
        "process.roles": "broker,controller",
        **replication(1),
    }
    return {
        "CLUSTER_ID": cluster_id,
        **{"KAFKA_" + name.upper().replace(".", "_"): value for name, value in properties.items()},
    }


@contextmanager
def _running() -> Iterator[str]:
    from testcontainers.core.container import DockerContainer

    [port] = free_ports(1)
    bootstrap, cluster_id = f"{HOST}:{port}", new_cluster_id()
    container = DockerContainer(IMAGE).with_bind_ports(9092, port)
    with container.with_envs(**container_environment(port, cluster_id)):
        end_s, pause = time.monotonic() + _START_TIMEOUT_S, Event()
        while answering_cluster(port) != cluster_id:
            if time.monotonic() > end_s:
                raise LocalBrokerError(f"the container did not answer at {bootstrap} within {_START_TIMEOUT_S} s")
            pause.wait(0.2)
        yield bootstrap
