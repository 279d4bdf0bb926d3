"""One broker for all workers of a test run."""

import itertools
import json
import uuid
from pathlib import Path
from types import TracebackType
from typing import Final

from afl_stream.broker.broker import THIS_PROCESS
from afl_stream.broker.jars import locked
from tools.kafka import Broker, NotThisBroker

#: No test kills it, and it serves all of them at once, on a machine that may stand still for seconds: the controller
#: must not take it for dead, because partitions are without a leader then.
_PATIENT: Final = {"broker.session.timeout.ms": "30000"}
#: The topics of a whole run are thousands.
_HEAP_MB: Final = 1_024


class BrokerOfTheRun:
    """Entered by each worker that needs the broker: the first one starts it, the last one out stops it.

    `directory` is common to the workers. The broker dies with `guardian_pid`, the process that leads the run, also
    when a worker died without leaving.
    """

    def __init__(self, directory: Path, *, guardian_pid: int = THIS_PROCESS) -> None:
        self._directory = directory
        self._guardian_pid = guardian_pid
        self._name = uuid.uuid4().hex

    def __enter__(self) -> str:
        self._directory.mkdir(parents=True, exist_ok=True)
        with locked(self._directory / "lock"):
            broker = self._running() or self._start()
            self._write_users([*self._users(), self._name])
        return broker.bootstrap

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with locked(self._directory / "lock"):
            users = [name for name in self._users() if name != self._name]
            self._write_users(users)
            broker = self._running()
            if not users and broker is not None:
                broker.stop()

    def _running(self) -> Broker | None:
        for directory in sorted(self._directory.glob("broker-*")):
            try:
                return Broker.attach(directory)
            except (FileNotFoundError, NotThisBroker):
                continue
        return None

    def _start(self) -> Broker:
        unused = (self._directory / f"broker-{number}" for number in itertools.count(1))
        directory = next(path for path in unused if not path.exists())
        return Broker.start(directory, properties=_PATIENT, heap_mb=_HEAP_MB, guardian_pid=self._guardian_pid)

    def _users(self) -> list[str]:
        path = self._directory / "users.json"
        return json.loads(path.read_text()) if path.exists() else []

    def _write_users(self, users: list[str]) -> None:
        (self._directory / "users.json").write_text(json.dumps(users))
