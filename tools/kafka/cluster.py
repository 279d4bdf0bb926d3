"""Several brokers of one cluster on this machine: each is broker and controller, and each topic has three copies."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from afl_stream.broker.broker import START_TIMEOUT_S, THIS_PROCESS, Broker, format_data, read_settings
from afl_stream.broker.errors import NotThisBroker
from afl_stream.broker.ports import free_ports
from afl_stream.broker.settings import BrokerSettings, new_cluster_id


class Cluster:
    """Brokers with the node ids 1, 2, 3, ...; each may be killed, paused and started again by itself."""

    def __init__(self, brokers: list[Broker]) -> None:
        self.brokers = brokers

    @classmethod
    def start(
        cls,
        directory: Path,
        brokers: int = 3,
        *,
        heap_mb: int = 384,
        port: int | None = None,
        guardian_pid: int | None = THIS_PROCESS,
        properties: Mapping[str, str] | None = None,
        timeout_s: float = START_TIMEOUT_S,
    ) -> "Cluster":
        """Format and start that many brokers below `directory`, and wait until each of them answers.

        Topics have three copies (or as many as there are brokers), of which two must be in sync from three brokers on.
        `port` is that of the first broker; `guardian_pid` and `properties` as for `Broker.start`. Raises as
        it does; those that had started are killed then.
        """
        settings = _settings(directory.resolve(), brokers, port)
        guardian_pid = os.getpid() if guardian_pid == THIS_PROCESS else guardian_pid
        given = dict(properties or {})
        settings = [replace(each, heap_mb=heap_mb, guardian_pid=guardian_pid, properties=given) for each in settings]
        with ThreadPoolExecutor(brokers) as threads:
            list(threads.map(format_data, settings))
        return cls._launch(settings, [], timeout_s)

    @classmethod
    def open(cls, directory: Path, timeout_s: float = START_TIMEOUT_S) -> "Cluster":
        """Return the cluster that was started in `directory` once, those of its brokers that do not run started again.

        Raises FileNotFoundError when there is none, otherwise as `Broker.start` does.
        """
        running, stopped = [], []
        for folder in broker_folders(directory):
            try:
                running.append(Broker.attach(folder))
            except (FileNotFoundError, NotThisBroker):
                stopped.append(read_settings(folder))
        if not running and not stopped:
            raise FileNotFoundError(f"no broker was started in {directory}")
        return cls._launch(stopped, running, timeout_s)

    @classmethod
    def attach(cls, directory: Path) -> "Cluster":
        """Return those brokers of `directory` that run, started by whatever process; there may be none."""
        cluster = cls([])
        for folder in broker_folders(directory):
            try:
                cluster.brokers.append(Broker.attach(folder))
            except (FileNotFoundError, NotThisBroker):
                continue
        return cluster

    @classmethod
    def _launch(cls, settings: Sequence[BrokerSettings], running: Sequence[Broker], timeout_s: float) -> "Cluster":
        started: list[Broker] = []
        try:
            # All at once: none of them answers before most of them are there.
            for each in settings:
                started.append(Broker.launch(each))
            for broker in started:
                broker.wait_until_ready(timeout_s)
        except BaseException:
            cls(started).kill()
            raise
        return cls(sorted([*running, *started], key=lambda broker: broker.settings.node_id))

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, for clients."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def cluster_id(self) -> str:
        """The id that all were formatted with."""
        return self.brokers[0].cluster_id

    def start_again(self) -> None:
        """Start those again that do not run, all at once: one alone may have to wait for another. Raises as they do."""
        away = [broker for broker in self.brokers if not broker.is_running]
        with ThreadPoolExecutor(max(1, len(away))) as threads:
            list(threads.map(Broker.start_again, away))

    def stop(self) -> None:
        """Ask all to end at once, and wait: the last one alone could not leave in order."""
        with ThreadPoolExecutor(max(1, len(self.brokers))) as threads:
            list(threads.map(Broker.stop, self.brokers))

    def kill(self) -> None:
        """SIGKILL them all."""
        for broker in self.brokers:
            broker.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def broker_folders(directory: Path) -> list[Path]:
    """Return the folders of the brokers of a cluster."""
    return sorted(path for path in directory.resolve().glob("broker-*") if path.is_dir())


def _settings(directory: Path, brokers: int, port: int | None) -> list[BrokerSettings]:
    ports = free_ports(2 * brokers, avoid=() if port is None else (port,))
    client_ports, controller_ports = ports[:brokers], ports[brokers:]
    if port is not None:
        client_ports[0] = port
    cluster_id = new_cluster_id()
    voters = dict(enumerate(controller_ports, start=1))
    return [
        BrokerSettings(
            directory=directory / f"broker-{node}",
            cluster_id=cluster_id,
            node_id=node,
            port=client_port,
            controller_port=voters[node],
            voters=voters,
        )
        for node, client_port in enumerate(client_ports, start=1)
    ]
