"""One real Kafka broker: formatted once, started, stopped, killed, paused and started again on the same data."""

import atexit
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self

from afl_stream.broker.errors import BrokerDidNotStart, LocalBrokerError, NotThisBroker, StrangerOnThePort
from afl_stream.broker.jars import KAFKA_POM, jars_of
from afl_stream.broker.java import find_java
from afl_stream.broker.ports import free_ports
from afl_stream.broker.process import JavaProcess, command_line, log_tail, process_exists
from afl_stream.broker.ready import answering_cluster
from afl_stream.broker.settings import BrokerSettings, Listener, new_cluster_id

#: Generous: two cores may be shared by several test workers, each with a broker that starts.
START_TIMEOUT_S = 90.0
STOP_GRACE_S = 20.0

#: Stands for the process that starts a broker.
THIS_PROCESS = -1

_LOG4J = Path(__file__).with_name("log4j2.properties")
_STATE = "broker.json"
_PID = "broker.pid"
_PORT_TAKEN = "Address already in use"
_PORT_ATTEMPTS = 5


class Broker:
    """A broker (and controller) in a process of its own, listening on the loopback address only.

    As a context manager it is stopped at the end. One that was started with `guardian_pid` (by default: this process)
    dies with that process, whatever happens to it.
    """

    def __init__(self, settings: BrokerSettings, process: JavaProcess) -> None:
        self.settings = settings
        self._process = process

    @classmethod
    def start(  # noqa: PLR0913 - the settings of a broker, by name
        cls,
        directory: Path,
        *,
        properties: Mapping[str, str] | None = None,
        heap_mb: int = 512,
        scram_users: Mapping[str, str] | None = None,
        listeners: Sequence[Listener] = (),
        features: Mapping[str, int] | None = None,
        java_options: Sequence[str] = (),
        libraries: Path | None = None,
        port: int | None = None,
        guardian_pid: int | None = THIS_PROCESS,
        timeout_s: float = START_TIMEOUT_S,
    ) -> "Broker":
        """Format a data folder below `directory`, start a broker on it and wait until it answers.

        `scram_users` maps names to passwords: with them there is a second listener (`sasl_bootstrap`) of protocol
        SASL_PLAINTEXT, mechanism SCRAM-SHA-256, and an authorizer that lets those users do only what ACLs allow;
        clients of `bootstrap` may do everything. `listeners` are further ones, for such clients: see `address_of`; a
        listener of mechanism SCRAM-SHA-256 knows the same users. `features` are given to the format tool, such as
        `{"group.version": 0}` for a broker without the consumer group protocol. `port` fixes the port of `bootstrap`.
        `libraries` is a folder with the jars of another version of Kafka.
        `guardian_pid` is the process with which the broker dies: this one unless told, None for a broker that stays.

        Raises NotInstalled without Java or jars, StrangerOnThePort when another cluster's broker answers at the
        address, BrokerDidNotStart with the end of the log otherwise.
        """
        settings = BrokerSettings(
            directory=directory.resolve(),
            cluster_id=new_cluster_id(),
            port=port or 0,
            controller_port=0,
            scram_users=dict(scram_users or {}),
            listeners=tuple(listeners),
            features=dict(features or {}),
            properties=dict(properties or {}),
            java_options=tuple(java_options),
            heap_mb=heap_mb,
            libraries=libraries,
            guardian_pid=os.getpid() if guardian_pid == THIS_PROCESS else guardian_pid,
        )
        settings = _with_ports(settings, port)
        format_data(settings)
        return cls._launch_on_free_ports(settings, port, timeout_s)

    @classmethod
    def reopen(
        cls,
        directory: Path,
        *,
        port: int | None = None,
        libraries: Path | None = None,
        guardian_pid: int | None = THIS_PROCESS,
        timeout_s: float = START_TIMEOUT_S,
    ) -> "Broker":
        """Start a broker on the data that an earlier one left in `directory`: the same cluster, on ports as `start`.

        Raises FileNotFoundError when there is no data, otherwise as `start` does.
        """
        if not has_data(directory):
            raise FileNotFoundError(f"no broker was started in {directory}")
        settings = replace(read_settings(directory), directory=directory.resolve(), libraries=libraries)
        settings = replace(settings, guardian_pid=os.getpid() if guardian_pid == THIS_PROCESS else guardian_pid)
        return cls._launch_on_free_ports(settings, port, timeout_s)

    @classmethod
    def _launch_on_free_ports(cls, settings: BrokerSettings, port: int | None, timeout_s: float) -> "Broker":
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            settings = _with_ports(settings, port)
            _write(settings)
            try:
                broker = cls.launch(settings)
                broker.wait_until_ready(timeout_s)
            except BrokerDidNotStart as error:
                # Someone took a port between our look and the broker's start.
                if port is None and _PORT_TAKEN in error.log_tail and attempt < _PORT_ATTEMPTS:
                    continue
                raise
            return broker
        raise AssertionError("unreachable")

    @classmethod
    def launch(cls, settings: BrokerSettings) -> "Broker":
        """Start the process on data that is formatted, without waiting for it."""
        command = [*_java(settings, settings.java_options), "kafka.Kafka", str(settings.properties_path)]
        process = JavaProcess.start(command, log_path=settings.log_path, guardian_pid=settings.guardian_pid)
        broker = cls(settings, process)
        if settings.guardian_pid == os.getpid():
            # Earlier than the leash would: the folder may be deleted right after us.
            atexit.register(process.kill)
        (settings.directory / _PID).write_text(f"{process.pid}\n")
        return broker

    @classmethod
    def attach(cls, directory: Path) -> "Broker":
        """Return the broker that was started in `directory`, by whatever process, and still runs.

        Raises FileNotFoundError when none was started there or it was stopped, NotThisBroker when its process is gone
        or its id another's.
        """
        settings = read_settings(directory)
        pid = int((settings.directory / _PID).read_text())
        if not process_exists(pid) or str(settings.properties_path) not in command_line(pid):
            raise NotThisBroker(pid, settings.directory)
        return cls(settings, JavaProcess(pid))

    @property
    def bootstrap(self) -> str:
        """The address for clients, `127.0.0.1:port`."""
        return self.settings.bootstrap

    @property
    def sasl_bootstrap(self) -> str:
        """The address for clients that log in; ValueError on a broker without users."""
        if self.settings.sasl_bootstrap is None:
            raise ValueError("this broker was started without scram_users")
        return self.settings.sasl_bootstrap

    def address_of(self, listener: str) -> str:
        """Return the address for clients of one of the further listeners, by its name."""
        return next(found.bootstrap for found in self.settings.listeners if found.name == listener)

    @property
    def cluster_id(self) -> str:
        """The id that its data was formatted with."""
        return self.settings.cluster_id

    @property
    def pid(self) -> int:
        """The id of its Java process."""
        return self._process.pid

    @property
    def log_path(self) -> Path:
        """What it printed."""
        return self.settings.log_path

    @property
    def is_running(self) -> bool:
        """Whether its process is there; a paused one is."""
        return self._process.is_running

    @property
    def exit_code(self) -> int | None:
        """How it ended, where this process started it; None while it runs, and for a broker of another process."""
        return self._process.exit_code

    def stop(self) -> None:
        """Ask it to end (SIGTERM) and wait; SIGKILL when it takes too long. The data stays."""
        self._process.stop(STOP_GRACE_S)
        self._forget()

    def kill(self) -> None:
        """SIGKILL it and wait until it is gone. The data stays as it is."""
        self._process.kill()
        self._forget()

    def pause(self) -> None:
        """Stop it in its tracks (SIGSTOP): connections stay open and nothing answers."""
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused broker go on (SIGCONT)."""
        self._process.signal(signal.SIGCONT)

    def start_again(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the same broker on the same data and ports, and wait until it answers. Raises as `start` does."""
        if self.is_running:
            raise LocalBrokerError(f"the broker at {self.bootstrap} runs already, as process {self.pid}")
        self._process = self.launch(self.settings)._process
        self.wait_until_ready(timeout_s)

    def wait_until_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until `describe_cluster` returns our cluster id; where it does not, kill the process and raise."""
        end_s, pause = time.monotonic() + timeout_s, Event()
        try:
            while True:
                # In this order: the answer of a process that had ended before we asked is not ours.
                running = self.is_running
                found = answering_cluster(self.settings.port)
                if found is not None and found != self.cluster_id:
                    raise StrangerOnThePort(self.bootstrap, self.cluster_id, found)
                if running and found is not None:
                    return
                if not running:
                    raise self._did_not_start(f"the broker ended with exit code {self._process.exit_code}")
                if time.monotonic() > end_s:
                    raise self._did_not_start(f"the broker did not answer at {self.bootstrap} within {timeout_s} s")
                pause.wait(0.05)
        except BaseException:
            self.kill()
            raise

    def _did_not_start(self, what: str) -> BrokerDidNotStart:
        return BrokerDidNotStart(what, self.log_path, log_tail(self.log_path))

    def _forget(self) -> None:
        atexit.unregister(self._process.kill)
        (self.settings.directory / _PID).unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def format_data(settings: BrokerSettings) -> None:
    """Write server.properties and format the data folder with the cluster id, the users and the features."""
    settings.directory.mkdir(parents=True, exist_ok=True)
    _write(settings)
    command = [*_java(settings), "kafka.tools.StorageTool", "format", "-t", settings.cluster_id]
    command += ["-c", str(settings.properties_path)]
    for name, password in settings.scram_users.items():
        command += ["--add-scram", f"SCRAM-SHA-256=[name={name},password={password}]"]
    for name, level in settings.features.items():
        command += ["--feature", f"{name}={level}"]
    run = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    with settings.log_path.open("a") as log:
        log.write(run.stdout)
    if run.returncode != 0:
        raise BrokerDidNotStart(f"{settings.data_path} could not be formatted", settings.log_path, run.stdout)
    _write(settings)


def has_data(directory: Path) -> bool:
    """Whether the data folder of a broker in `directory` is formatted: it has the file that is written last."""
    try:
        settings = read_settings(directory)
    except FileNotFoundError:
        return False
    return (settings.data_path / "meta.properties").is_file()


def read_settings(directory: Path) -> BrokerSettings:
    """Return the settings of the broker that was formatted in `directory`; FileNotFoundError when none was."""
    return BrokerSettings.from_json((directory.resolve() / _STATE).read_text())


def _write(settings: BrokerSettings) -> None:
    """Write server.properties for the broker, and the settings for processes that attach to it."""
    # Whole or not at all: without it the data could not be found again.
    written = settings.directory / f"{_STATE}.new"
    written.write_text(settings.to_json())
    written.replace(settings.directory / _STATE)
    lines = [f"{name}={value}\n" for name, value in settings.server_properties().items()]
    settings.properties_path.write_text("".join(lines))


def _java(settings: BrokerSettings, options: Sequence[str] = ()) -> list[str]:
    # The first tier of the compiler alone: it is up in half the time, and fast enough for a machine of two cores.
    command = [find_java(), f"-Xmx{settings.heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *options]
    libraries = settings.libraries or jars_of(KAFKA_POM)
    return [*command, f"-Dlog4j2.configurationFile={_LOG4J}", "-cp", f"{libraries}/*"]


def _with_ports(settings: BrokerSettings, port: int | None) -> BrokerSettings:
    count = 3 + len(settings.listeners)
    first, second, third, *others = free_ports(count, avoid=() if port is None else (port,))
    sasl_port = third if settings.scram_users else None
    listeners = tuple(replace(one, port=free) for one, free in zip(settings.listeners, others, strict=True))
    return replace(settings, port=port or first, controller_port=second, sasl_port=sasl_port, listeners=listeners)
