"""One registry: started, stopped, killed, and started again on the same data."""

import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self

from afl_stream.broker.errors import LocalBrokerError
from afl_stream.broker.java import find_java
from afl_stream.broker.ports import HOST, free_ports
from afl_stream.broker.process import JavaProcess, command_line, log_tail
from tools.registry.application import application_folder

#: What the registry needs.
JAVA_VERSION = 21
#: Generous: a machine of two cores may run several test workers besides.
START_TIMEOUT_S = 240.0

_GRACE_S = 20.0
_INTERVAL_S = 0.1
_STATE = "registry.txt"


class RegistryDidNotStart(LocalBrokerError):
    """The registry's process ended, or did not answer in time."""


class RegistryServer:
    """A registry in a process of its own, on the loopback address; as a context manager it is stopped at the end."""

    def __init__(self, folder: Path, port: int, process: JavaProcess) -> None:
        self.folder = folder
        self.port = port
        self._process = process

    @classmethod
    def start(cls, folder: Path, *, port: int | None = None, guardian_pid: int | None = None) -> "RegistryServer":
        """Start a registry with its data below `folder`, and wait until it answers; it dies with the guardian, if any.

        Raises NotInstalled without Java or the application, RegistryDidNotStart with the end of its log.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if port is None:
            (port,) = free_ports(1)
        server = cls(folder, port, _process(folder, port, guardian_pid))
        (folder / _STATE).write_text(f"{server.pid} {port}\n")
        server._wait_until_ready()
        return server

    @classmethod
    def attach(cls, folder: Path) -> "RegistryServer | None":
        """Return the registry that runs on a folder, or None."""
        try:
            pid, port = (int(word) for word in (folder / _STATE).read_text().split())
        except (OSError, ValueError):
            return None
        server = cls(folder, port, JavaProcess(pid))
        return server if server._process.is_running and str(folder) in command_line(pid) else None

    @property
    def url(self) -> str:
        """The address for clients: Confluent's API."""
        return f"http://{HOST}:{self.port}/apis/ccompat/v7"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log_path(self) -> Path:
        return self.folder / "registry.log"

    def kill(self) -> None:
        """SIGKILL it and wait until it is gone. The data stays as it is."""
        self._process.kill()

    def stop(self) -> None:
        """Stop it; its data stays."""
        self._process.stop(_GRACE_S)
        (self.folder / _STATE).unlink(missing_ok=True)

    def start_again(self) -> None:
        """Start it on the same data and port, and wait until it answers. Raises as `start`."""
        self._process = _process(self.folder, self.port, os.getpid())
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        end_s, pause = time.monotonic() + START_TIMEOUT_S, Event()
        while not self._answers():
            if not self._process.is_running or time.monotonic() > end_s:
                what = "ended" if not self._process.is_running else f"does not answer after {START_TIMEOUT_S:.0f} s"
                self._process.kill()
                raise RegistryDidNotStart(f"the registry {what}; the end of its log:\n{log_tail(self.log_path)}")
            pause.wait(_INTERVAL_S)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _process(folder: Path, port: int, guardian_pid: int | None) -> JavaProcess:
    (management_port,) = free_ports(1, avoid=(port,))
    settings = {
        "quarkus.http.host": HOST,
        "quarkus.http.port": str(port),
        "quarkus.management.port": str(management_port),
        "apicurio.storage.kind": "sql",
        "apicurio.storage.sql.kind": "h2",
        # In a file, and written with each commit: what was registered outlives the process, also one that is killed.
        "apicurio.datasource.url": f"jdbc:h2:file:{folder / 'data' / 'registry'};WRITE_DELAY=0",
    }
    command = [_java(), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [f"-D{name}={value}" for name, value in settings.items()]
    command += ["-jar", str(application_folder() / "quarkus-run.jar")]
    return JavaProcess.start(command, log_path=folder / "registry.log", guardian_pid=guardian_pid)


def _java() -> str:
    """Return a Java that is new enough, maybe beside an older one on PATH. Raises JavaMissing."""
    installed = sorted(map(str, Path("/usr/lib/jvm").glob("*/bin/java")))
    home = os.environ.get("JAVA_HOME")
    return find_java(JAVA_VERSION, *([f"{home}/bin/java"] if home else []), *installed)
