"""`afl-stream broker`: a Kafka that runs as long as its command, keeps its data, and leaves nothing running."""

import json
import signal
from pathlib import Path

import pytest

from afl_stream.broker.broker import Broker
from afl_stream.broker.jars import KAFKA_POM, jars_of
from afl_stream.broker.pins import check, fetch, pins_beside
from afl_stream.broker.process import process_exists
from tests.eventually import eventually
from tests.scenarios.command_lines import CommandLine
from tests.worlds.processes import Party, Processes

#: Of the pinned jars, one that is small.
_SMALL = "slf4j-api"


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_broker_is_there_with_its_data_as_long_as_its_command_and_again_the_next_time(
    command_line: CommandLine,
    processes: Processes,
    broker_installed: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = command_line.data_dir / "kafka"

    def broker(name: str, *words: str) -> tuple[Party, Broker]:
        """Start the command, wait until it says that it runs, and return it with its broker."""
        where = ("--data-dir", str(command_line.data_dir))
        party = processes.start(name, "afl_stream", "broker", *words, *where, environment={})
        return party.when_it_says("Ctrl-C"), Broker.attach(folder)

    first, java = broker("first", "--port", "0")
    assert first.lines == [java.bootstrap]
    assert f"export AFL_KAFKA_BOOTSTRAP={java.bootstrap}" in first.log
    monkeypatch.setenv("AFL_KAFKA_BOOTSTRAP", java.bootstrap)
    applied = command_line("topics", "apply", command_line.program)
    assert applied.code == 0, applied
    assert "one broker, so each topic has one copy" in caplog.text

    # It has its folder and its port for itself.
    same_folder = command_line("broker", "--port", "0")
    same_port = command_line("broker", "--data", str(folder / "other"), "--port", str(java.settings.port))
    told = command_line("broker", "--status", "--json")
    assert (same_folder.code, same_port.code, told.code) == (3, 3, 0)
    assert f"a broker runs as process {java.pid}, at {java.bootstrap}, on {folder} already" in same_folder.err
    assert f"a broker of the Kafka cluster {java.cluster_id} listens on port" in same_port.err
    assert told.document["bootstrap"] == java.bootstrap

    first.send(signal.SIGINT)
    assert first.exit_code() == 0, first.log
    assert not process_exists(java.pid)

    # The next one has port and cluster of the last time without being asked for them, and ends well when another
    # command stops it.
    second, again = broker("second")
    assert (again.bootstrap, again.cluster_id) == (java.bootstrap, java.cluster_id)
    planned = command_line("topics", "plan", command_line.program, "--check")
    assert planned.code == 0, planned
    assert command_line("broker", "--stop").code == 0
    assert second.exit_code() == 0, second.log

    # No process outlives a command that is killed.
    third, java = broker("third")
    third.kill()
    eventually(lambda: not process_exists(java.pid), 30)
    assert command_line("broker", "--status").code == 3


@pytest.mark.long
@pytest.mark.timeout(240)
def test_a_broker_in_the_background_outlives_its_command_and_is_ended_by_another(
    command_line: CommandLine, broker_installed: None
) -> None:
    started = command_line("broker", "--background", "--port", "0", "--json")
    told = json.loads(started.out)
    try:
        assert process_exists(told["process"])
        again = command_line("broker", "--background")
    finally:
        stopped = command_line("broker", "--stop")

    assert (started.code, again.code, stopped.code) == (0, 3, 0), stopped
    assert not process_exists(told["process"])


def test_the_jars_of_the_broker_are_the_pinned_ones(broker_installed: None) -> None:
    check(jars_of(KAFKA_POM), pins_beside(KAFKA_POM))


@pytest.mark.long
def test_jars_are_fetched_without_maven(tmp_path: Path, broker_installed: None) -> None:
    pinned = [pin for pin in pins_beside(KAFKA_POM) if pin.artifact == _SMALL]

    fetch(pinned, tmp_path / "libs", tmp_path / "repository")

    assert len(pinned) == 1
    check(tmp_path / "libs", pinned)
