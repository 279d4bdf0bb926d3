"""The command `broker`: a Kafka for this machine, that ends with the command."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from afl.core.process.private_files import make_private_folder
from afl.core.process.signals import draining
from afl.core.process.stopping import StopFlag
from afl_stream.commands.arguments import common, service
from afl_stream.commands.invocation import Invocation
from afl_stream.exit_codes import ExitCode

if TYPE_CHECKING:
    from afl_stream.broker.broker import Broker
    from afl_stream.commands.terminal import Terminal

#: How often the command looks whether its broker still runs: seconds.
_LOOK_S: Final = 0.5
#: How Java ends when it is told to.
_TOLD_TO_END: Final = (128 + signal.SIGTERM, 128 + signal.SIGINT)


@click.command("broker")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    help="Port to listen on; 0: a free one.  [default: the one of the last time, at first 9092]",
)
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Where its data and its log are.  [default: kafka in the data directory]",
)
@click.option(
    "--kafka",
    "release",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="FOLDER",
    help="A release of Apache Kafka that was unpacked, in place of the version that is fetched.",
)
@click.option("--background", is_flag=True, help="Leave the broker running, and end this command.")
@click.option("--status", "only_tell", is_flag=True, help="Say whether it runs and answers; end with 3 if not.")
@click.option("--stop", "only_stop", is_flag=True, help="End the one that runs; its data stays.")
@common
@service
def broker_command(
    invocation: Invocation,
    port: int | None,
    folder: Path | None,
    release: Path | None,
    background: bool,
    only_tell: bool,
    only_stop: bool,
) -> ExitCode:
    """Run a real Kafka on this machine, without Docker, until it is stopped.

    One broker, for development: it listens on 127.0.0.1 alone, without a password. Its data stays in the folder for
    the next time. It ends with this command, however that ends.

    Java 17 or newer is taken from PATH or from the extra broker (pip install 'afl-stream[broker]'). Kafka itself is
    fetched the first time, and kept in the user's cache.

    \b
    Examples:
      afl-stream broker
      afl-stream broker --port 9192 --data /var/tmp/kafka
      afl-stream broker --background
      afl-stream broker --stop
    """
    given = [name for name, is_given in (("--status", only_tell), ("--stop", only_stop)) if is_given]
    given += [f"--{name}" for name, value in (("port", port), ("kafka", release)) if given and value is not None]
    given += ["--background"] if given and background else []
    if len(given) > 1:
        raise click.UsageError(f"{given[0]} does not go together with {given[1]}")
    from afl_stream.broker.errors import NoBrokerRuns
    from afl_stream.broker.folder import answering_in, running_in

    folder = invocation.settings().data_dir / "kafka" if folder is None else folder
    terminal = invocation.terminal()
    if only_tell:
        _introduce(terminal, answering_in(folder))
        return ExitCode.OK
    if only_stop:
        broker = running_in(folder)
        if broker is None:
            raise NoBrokerRuns(folder)
        broker.stop()
        terminal.remark(f"ended; its data stays in {folder}")
        return ExitCode.OK
    return _run(terminal, folder, port, release, stays=background)


def _run(terminal: Terminal, folder: Path, port: int | None, release: Path | None, *, stays: bool) -> ExitCode:
    from afl_stream.broker.errors import BrokerEnded
    from afl_stream.broker.folder import claimed, free_port, libraries_in, must_fetch, open_broker, version_of
    from afl_stream.broker.java import find_java
    from afl_stream.broker.process import log_tail

    make_private_folder(folder)
    with claimed(folder):
        # What can be told at once comes before what takes long.
        port = free_port(folder, port)
        find_java()
        if release is None and must_fetch():
            terminal.remark("fetching Apache Kafka (54 MB), the first time")
        libraries = libraries_in(release)
        terminal.remark(f"starting Apache Kafka {version_of(libraries)}")
        broker = open_broker(folder, port=port, libraries=libraries, stays=stays)
        if stays:
            _introduce(terminal, broker)
            return ExitCode.OK
        stop = StopFlag()
        try:
            with draining(stop.set, lambda: "the broker closes its files"):
                _introduce(terminal, broker)
                terminal.remark("Ctrl-C ends it; its data stays")
                while not stop.wait(_LOOK_S):
                    if not broker.is_running:
                        break
                if stop.is_set() or broker.exit_code in _TOLD_TO_END:
                    return ExitCode.OK
                raise BrokerEnded(broker.exit_code, broker.log_path, log_tail(broker.log_path))
        finally:
            broker.stop()


def _introduce(terminal: Terminal, broker: Broker) -> None:
    if terminal.as_json:
        terminal.document(
            {
                "bootstrap": broker.bootstrap,
                "cluster_id": broker.cluster_id,
                "process": broker.pid,
                "folder": str(broker.settings.directory),
                "log": str(broker.log_path),
            }
        )
        return
    terminal.line(broker.bootstrap)
    terminal.remark(f"process {broker.pid}, cluster {broker.cluster_id}, data in {broker.settings.directory}")
    terminal.remark(f"for other commands: export AFL_KAFKA_BOOTSTRAP={broker.bootstrap}")
