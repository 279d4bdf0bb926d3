"""The command `bridge`: what it is given, what it says of that, and its end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine

DECLARATION = """
def declare(bridge):
    bridge.publish("net.Ping", to="pings")
    bridge.raise_events("pongs", name="pong")

def bad(bridge):
    bridge.publish("net.Ping", to="a topic")

def forgetful(bridge):
    bridge.apply_topics

text = "not a function"
"""


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    (tmp_path / "shop.py").write_text(DECLARATION)
    return CommandLine(tmp_path, capsys)


@pytest.mark.parametrize(
    ("argument", "code", "said"),
    [
        ("shop.py:declared", 2, "module shop.py has no declared; did you mean declare?"),
        ("shop.py:text", 2, "shop.py:text is a str; a function with one parameter, the bridge, says what"),
        ("nowhere", 2, "module nowhere: there is no module nowhere"),
        ("shop.py:bad", 2, "topic name 'a topic': Kafka takes A-Z a-z"),
        ("shop.py:forgetful", 2, "shop.py:forgetful declares nothing, so there is nothing to run"),
        ("shop.py", 3, "topic pings does not exist and is needed for the events of facet net.Ping"),
    ],
)
def test_a_bridge_that_cannot_run_is_refused_with_the_reason(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch, argument: str, code: int, said: str
) -> None:
    command_line.deployed()
    monkeypatch.chdir(command_line.folder)

    result = command_line.run("bridge", argument)

    assert result.code == code, result.err
    assert said in result.err


def test_a_bridge_says_what_it_does_and_ends_when_it_is_told(command_line: CommandLine) -> None:
    command_line.deployed()
    process = command_line.process("bridge", str(command_line.folder / "shop.py"), "--create-topics")
    assert process.stderr is not None
    first = process.stderr.readline()

    process.send_signal(signal.SIGTERM)
    _, rest = process.communicate(timeout=60)

    assert first == "bridge: answers net.Ping; reads pongs; Ctrl-C ends it\n"
    assert rest.splitlines()[-1] == "nothing was done"
    assert process.returncode == 0
