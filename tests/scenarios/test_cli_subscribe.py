"""`afl-stream pubsub subscribe`: messages as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from afl_stream.embedded.transport import EmbeddedTransport
from afl_stream.settings.config import StreamConfig
from afl_stream.settings.sections import EmbeddedSettings
from tests.scenarios.command_lines import Called, CommandLine


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys)


@pytest.fixture
def produce(cli: CommandLine) -> Callable[..., None]:
    """Write records to a topic of the deployment's log."""

    def write(topic: str, *values: bytes | None, key: bytes | None = None) -> None:
        config = StreamConfig(embedded=EmbeddedSettings(data_dir=str(cli.data_dir)))
        cli.data_dir.mkdir(exist_ok=True)
        transport = EmbeddedTransport(config.log_path)
        if topic not in transport.admin().topic_names():
            transport.admin().create_topic(topic, partitions=1)
        producer = transport.producer()
        for value in values:
            producer.produce(topic, value, key=key, headers=(("trace", b"1"), ("none", None)))
        assert producer.flush(5.0) == 0
        transport.close()

    return write


def lines(called: Called) -> list[dict[str, object]]:
    assert called.code == 0, called.err
    return [json.loads(line) for line in called.out.splitlines()]


def test_a_message_is_a_line_with_its_data_and_its_place(cli: CommandLine, produce: Callable[..., None]) -> None:
    produce("orders", b'{"total": 7}', key=b"k")

    [line] = lines(cli("pubsub", "subscribe", "orders", "--from-beginning", "--count", "1"))

    assert line.pop("time_ms")
    assert line == {
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "key": "k",
        "headers": {"trace": "1", "none": None},
        "data": {"total": 7},
    }


def test_what_cannot_be_decoded_is_a_line_too(cli: CommandLine, produce: Callable[..., None]) -> None:
    produce("orders", b"{", None, b"\xff")

    broken, tombstone, binary = lines(cli("pubsub", "subscribe", "orders", "--from-beginning", "--count", "3"))

    assert (broken["unreadable"], broken["value"]) == ("bad_json", "{")
    assert tombstone["data"] is None
    assert (binary["unreadable"], binary["value"]) == ("bad_utf8", "\\xff")


def test_a_pattern_takes_all_topics_that_match(cli: CommandLine, produce: Callable[..., None]) -> None:
    produce("orders.eu", b"1")
    produce("orders.us", b"2")
    produce("stock", b"3")

    found = lines(cli("pubsub", "subscribe", "--pattern", "orders.*", "--from-beginning", "--count", "2"))

    assert sorted(str(line["topic"]) for line in found) == ["orders.eu", "orders.us"]


def test_a_name_continues_where_it_stopped(cli: CommandLine, produce: Callable[..., None]) -> None:
    produce("orders", b"1", b"2")
    words = ("pubsub", "subscribe", "orders", "--from-beginning", "--count", "1")

    first, second = (lines(cli(*words, "--name", "audit")) for _ in range(2))
    without = [lines(cli(*words)) for _ in range(2)]

    assert [line["data"] for line in (*first, *second)] == [1, 2]
    assert [line["data"] for [line] in without] == [1, 1]


@pytest.mark.parametrize("words", [(), ("orders", "--pattern", "orders.*")])
def test_topics_are_named_or_matched(cli: CommandLine, words: tuple[str, ...]) -> None:
    called = cli("pubsub", "subscribe", *words)

    assert called.code == 2
    assert "name TOPIC..., or give --pattern GLOB" in called.err


def test_a_topic_that_is_not_there_is_named(cli: CommandLine, produce: Callable[..., None]) -> None:
    produce("orders", b"1")

    called = cli("pubsub", "subscribe", "odrers")

    assert called.code == 3
    assert "topic odrers does not exist" in called.err
