"""The broker of a folder: one at a time, with data that is kept from one to the next."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from afl_stream.broker.broker import THIS_PROCESS, Broker, has_data, read_settings
from afl_stream.broker.errors import (
    BrokerRuns,
    BrokerSilent,
    JarsMissing,
    NoBrokerRuns,
    NotKafka,
    NotThisBroker,
    PortTaken,
)
from afl_stream.broker.jars import KAFKA_POM, are_fetched, jars_of
from afl_stream.broker.ports import free_ports, is_free
from afl_stream.broker.process import process_exists
from afl_stream.broker.ready import answering_cluster

#: Where clients look for Kafka when told nothing.
USUAL_PORT: Final = 9092

_ASK_S: Final = 1.0
_CORE: Final = "kafka_2.1[0-9]-*.jar"


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep other brokers off the folder, until the end of the block or of this process. Raises BrokerRuns."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            broker = running_in(folder)
            if broker is None:
                raise BrokerRuns(folder, None, None) from None
            raise BrokerRuns(folder, broker.bootstrap, broker.pid) from None
        broker = running_in(folder)
        if broker is not None:
            guardian = broker.settings.guardian_pid
            if guardian is None or process_exists(guardian):
                raise BrokerRuns(folder, broker.bootstrap, broker.pid)
            # Its process was killed a moment ago, and this one is about to die with it.
            broker.kill()
        yield


def free_port(folder: Path, port: int | None) -> int:
    """Return the port for the broker of a folder: without one that of the last time, at first the usual one; 0: any.

    Raises PortTaken.
    """
    if port is None:
        port = read_settings(folder).port if has_data(folder) else USUAL_PORT
    elif port == 0:
        (port,) = free_ports(1)
    if not is_free(port):
        # What is no broker does not answer at all.
        raise PortTaken(port, answering_cluster(port, _ASK_S))
    return port


def open_broker(folder: Path, *, port: int, libraries: Path, stays: bool = False) -> Broker:
    """Start the broker of a folder that this process has claimed, with the data of earlier times where there is any.

    It dies with this process, or `stays`. Raises what Broker.start raises.
    """
    guardian = None if stays else THIS_PROCESS
    if has_data(folder):
        return Broker.reopen(folder, port=port, libraries=libraries, guardian_pid=guardian)
    # What a start left that did not come to its end would be taken for data.
    shutil.rmtree(folder / "data", ignore_errors=True)
    return Broker.start(folder, port=port, libraries=libraries, guardian_pid=guardian)


def running_in(folder: Path) -> Broker | None:
    """Return the broker that runs on a folder, started by whatever process, or None."""
    try:
        return Broker.attach(folder)
    except (FileNotFoundError, NotThisBroker):
        return None


def answering_in(folder: Path) -> Broker:
    """Return the broker that runs on a folder, once it has answered. Raises NoBrokerRuns, BrokerSilent."""
    broker = running_in(folder)
    if broker is None:
        raise NoBrokerRuns(folder)
    if answering_cluster(broker.settings.port) != broker.cluster_id:
        raise BrokerSilent(folder, broker.bootstrap, broker.pid)
    return broker


def libraries_in(folder: Path | None) -> Path:
    """Return the folder of Kafka's jars: `folder`, or its libs, or without one those of our own version.

    Raises NotKafka for a folder without them, JarsMissing where ours are not there and cannot be fetched.
    """
    if folder is None:
        try:
            return jars_of(KAFKA_POM)
        except JarsMissing as error:
            other = "or unpack a release of Apache Kafka, and name its folder with --kafka"
            raise JarsMissing(error.libraries, f"{error.reason}; {other}") from None
    for found in (folder, folder / "libs"):
        if any(found.glob(_CORE)):
            return found.resolve()
    raise NotKafka(folder)


def must_fetch() -> bool:
    """Whether the jars of our own version are still to be fetched."""
    return not are_fetched(KAFKA_POM)


def version_of(libraries: Path) -> str:
    """Return the version of Kafka whose jars these are."""
    (core, *_others) = sorted(libraries.glob(_CORE))
    return core.stem.partition("-")[2]
