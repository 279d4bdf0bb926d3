"""Starts and stops a server that speaks MongoDB's protocol."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from threading import Event
from types import TracebackType

from afl_stream.broker.ports import HOST, accepts_connections, free_ports
from afl_stream.broker.process import JavaProcess as Process
from afl_stream.broker.process import command_line, log_tail

#: How long a start may take on a busy machine.
START_TIMEOUT_S = 60.0

_INTERVAL_S = 0.05
_GRACE_S = 10.0


class NotInstalled(Exception):
    """The server's package is not installed."""


class ServerDidNotStart(Exception):
    """The server's process ended, or did not answer in time."""


class Server:
    """A running server. Use it as a context manager, or stop it."""

    def __init__(self, folder: Path, pid: int, port: int) -> None:
        self.folder = folder
        self.port = port
        self._process = Process(pid)

    @property
    def url(self) -> str:
        return f"mongodb://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @classmethod
    def start(
        cls, folder: Path, *, guardian_pid: int | None = None, standalone: bool = False, can_fail: bool = False
    ) -> Server:
        """Start a server with its data below `folder`; it dies with the guardian, where there is one.

        It is a replica set of one node, or, `standalone`, a server without transactions. One that `can_fail` takes the
        command configureFailPoint: it does to everybody what that says.

        Raises NotInstalled, ServerDidNotStart.
        """
        program = Path(sys.executable).with_name("secantusd-py")
        if not program.exists():
            raise NotInstalled(
                "the package SecantusDB is not installed (it is in the extra afl-stream[mongodb-server])"
            )
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "server.log"
        # An empty settings file: what stands in the folders of the person is not meant for tests.
        settings = folder / "secantusd.toml"
        settings.touch()
        (port,) = free_ports(1)
        command = [str(program), "--config", str(settings), "--host", HOST, "--port", str(port)]
        command += ["--storage-path", str(folder / "data"), "--cache-size", "128M", "--log-level", "WARNING"]
        command += ["--standalone"] if standalone else []
        command += ["--enable-test-commands"] if can_fail else []
        process = Process.start(command, log_path=log, guardian_pid=guardian_pid)
        _wait(process, port, log)
        server = cls(folder, process.pid, port)
        server._note().write_text(json.dumps({"pid": process.pid, "port": port}))
        return server

    @classmethod
    def attach(cls, folder: Path) -> Server | None:
        """Return the server that runs on a folder, or None. A process that only has its id is not taken for it."""
        try:
            noted = json.loads((folder / "server.json").read_text())
        except (OSError, ValueError):
            return None
        server = cls(folder, noted["pid"], noted["port"])
        return server if server._process.is_running and str(folder) in command_line(server.pid) else None

    def stop(self) -> None:
        """Stop it; its data stays."""
        self._process.stop(_GRACE_S)
        self._note().unlink(missing_ok=True)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _note(self) -> Path:
        return self.folder / "server.json"


def cache_folder() -> Path:
    """Return the folder of the user's cache in which a server for trials keeps its data."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "afl-stream" / "mongodb-up"


def _wait(process: Process, port: int, log: Path) -> None:
    end_s, pause = time.monotonic() + START_TIMEOUT_S, Event()
    while not accepts_connections(port):
        if not process.is_running or time.monotonic() > end_s:
            what = "ended" if not process.is_running else f"does not answer after {START_TIMEOUT_S:.0f} s"
            process.kill()
            raise ServerDidNotStart(f"the MongoDB server {what}; the end of its log {log}:\n{log_tail(log)}")
        pause.wait(_INTERVAL_S)
