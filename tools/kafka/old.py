"""A broker from before idempotent producers and record headers: on it, the errors about old brokers are tried."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self

from afl_stream.broker.errors import BrokerDidNotStart
from afl_stream.broker.jars import jars_of
from afl_stream.broker.java import find_java
from afl_stream.broker.ports import HOST, accepts_connections, free_ports
from afl_stream.broker.process import JavaProcess, log_tail
from afl_stream.broker.ready import answering_cluster

OLD_POM = Path(__file__).with_name("pom-old.xml")

_LOG4J = Path(__file__).with_name("log4j.properties")
_START_TIMEOUT_S = 90.0
_STOP_GRACE_S = 10.0


class OldBroker:
    """Apache Kafka 0.10.2 and its ZooKeeper, in two processes that die with this one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._processes: list[JavaProcess] = []
        self.cluster_id = ""
        self.bootstrap = ""

    @classmethod
    def start(cls, directory: Path) -> "OldBroker":
        """Start both below `directory` and wait until the broker answers. Raises NotInstalled, BrokerDidNotStart."""
        directory.mkdir(parents=True, exist_ok=True)
        broker = cls(directory.resolve())
        try:
            broker._start()
        except BaseException:
            broker.stop()
            raise
        return broker

    def stop(self) -> None:
        """Stop both. ZooKeeper last: without it the broker would not end."""
        for process in reversed(self._processes):
            process.stop(_STOP_GRACE_S)
        self._processes.clear()

    def _start(self) -> None:
        zookeeper_port, port = free_ports(2)
        self.bootstrap = f"{HOST}:{port}"
        zookeeper = {
            "tickTime": "500",
            "dataDir": f"{self._directory}/zookeeper-data",
            "clientPort": f"{zookeeper_port}",
            "clientPortAddress": HOST,
        }
        log = self._run("zookeeper", "org.apache.zookeeper.server.ZooKeeperServerMain", zookeeper)
        self._wait(lambda: "open" if accepts_connections(zookeeper_port) else None, log)
        broker = {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "zookeeper.connect": f"{HOST}:{zookeeper_port}",
            "log.dirs": f"{self._directory}/broker-data",
            "log.cleaner.enable": "false",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
        }
        log = self._run("broker", "kafka.Kafka", broker)
        self.cluster_id = self._wait(lambda: answering_cluster(port), log)

    def _run(self, name: str, main_class: str, properties: Mapping[str, str]) -> Path:
        path, log_path = self._directory / f"{name}.properties", self._directory / f"{name}.log"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        command = [find_java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dlog4j.configuration={_LOG4J.as_uri()}", "-cp", f"{jars_of(OLD_POM)}/*", main_class, str(path)]
        self._processes.append(JavaProcess.start(command, log_path=log_path, guardian_pid=os.getpid()))
        return log_path

    def _wait(self, found: Callable[[], str | None], log_path: Path) -> str:
        """Return what `found` finds, while the process that was started last runs."""
        end_s, pause = time.monotonic() + _START_TIMEOUT_S, Event()
        while (answer := found()) is None:
            if not self._processes[-1].is_running:
                raise BrokerDidNotStart("the old broker ended", log_path, log_tail(log_path))
            if time.monotonic() > end_s:
                what = f"the old broker did not answer within {_START_TIMEOUT_S} s"
                raise BrokerDidNotStart(what, log_path, log_tail(log_path))
            pause.wait(0.05)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
