"""Advice of commands fits the deployment, and asks for nothing that no longer matters."""

from pathlib import Path

import pytest

from afl.stores.sqlite.store import SqliteStore
from tests.scenarios.command_lines import CommandLine


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


def test_deploying_where_nothing_is_yet_names_the_command_that_makes_the_topics_of_these_files(
    command_line: CommandLine,
) -> None:
    called = command_line("deploy", command_line.program)

    assert called.code == 3
    assert f"afl-stream topics apply {command_line.program} --data-dir {command_line.data_dir}" in called.err
    assert command_line("topics", "apply", command_line.program).code == 0
    assert command_line("deploy", command_line.program).code == 0


def test_an_agent_says_which_events_it_left_out(command_line: CommandLine) -> None:
    command_line("dev", command_line.program, "--input", 'hosts=["a"]', "--id", "w1")
    command_line("cancel", "w1")
    command_line("evaluator", "--until-idle")

    agent = command_line("agent", "--handlers", command_line.handlers, "--until-idle")

    assert "events: 2 read, 0 answered, 0 of them failed, 2 skipped (run cancelled or reset)\n" in agent.err


def test_settings_are_shown_as_a_file_has_them(command_line: CommandLine) -> None:
    shown = dict(line.split(maxsplit=1) for line in command_line("config").out.splitlines() if "." in line)

    assert shown["evaluator.allow_scripts"].strip() == "false"
    assert shown["agent.skip_cancelled"].strip() == "true"
    assert shown["store.url"].strip() == "-"


def test_a_settings_file_that_is_no_toml_is_told_in_the_readers_words(command_line: CommandLine) -> None:
    settings = command_line.file("settings.toml", "[agent")

    called = command_line("config", "--config", settings)

    assert called.code == 2
    assert "settings.toml is not a readable TOML file: Expected ']' at the end of a table declaration" in called.err


def test_a_log_that_was_recreated_beside_its_store_is_told_as_that(command_line: CommandLine) -> None:
    command_line("dev", command_line.program, "--input", 'hosts=["a"]', "--id", "w1")
    (command_line.data_dir / "log.sqlite3").unlink()
    command_line("topics", "apply", command_line.program)

    called = command_line("evaluator", "--until-idle")

    assert called.code == 3
    assert "A recreated embedded log is another log: log and store belong together." in called.err
    assert str(command_line.data_dir / "store.sqlite3") in called.err
    assert called.err.index("Put the log of this store back") < called.err.index("lost_records")


def test_a_cluster_without_a_store_here_is_told_with_the_command_that_shows_the_runs_of_dev(
    command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_KAFKA_BOOTSTRAP", "localhost:9")
    before = command_line("status")
    command_line("dev", command_line.program, "--input", "hosts=[]", "--handlers", command_line.handlers)

    called = command_line("status")
    monkeypatch.setenv("AFL_TRANSPORT", "embedded")
    shown = command_line("status")

    assert (before.code, called.code, shown.code) == (3, 3, 0)
    assert "AFL_TRANSPORT=embedded" not in before.err
    assert f"are in {command_line.data_dir / 'store.sqlite3'}: AFL_TRANSPORT=embedded afl-stream status" in called.err
    assert f"--data-dir {command_line.data_dir}" in called.err
    assert "COMPLETED" in shown.out


def test_an_empty_folder_is_told_with_the_command_to_begin_with(command_line: CommandLine) -> None:
    called = command_line("status")

    assert called.code == 3
    assert "nothing has run here yet" in called.err
    assert "afl-stream dev FILE.afl" in called.err
    assert "Kafka" not in called.err


@pytest.mark.parametrize("words", [("status",), ("evaluator", "--until-idle"), ("start", "Watch")])
def test_a_terminal_that_names_no_cluster_is_told_of_the_one_whose_store_is_here(
    words: tuple[str, ...], command_line: CommandLine
) -> None:
    command_line.data_dir.mkdir()
    SqliteStore(command_line.data_dir / "store-kafka.sqlite3").close()

    called = command_line(*words)

    assert called.code == 3
    assert "or name the Kafka cluster of " in called.err
    assert "store-kafka.sqlite3: --bootstrap or AFL_KAFKA_BOOTSTRAP" in called.err


def test_a_run_that_has_ended_asks_for_no_answers(command_line: CommandLine) -> None:
    command_line("dev", command_line.program, "--input", 'hosts=["a"]', "--id", "w1")
    assert "afl-stream continue w1:" in command_line("status", "w1").out
    command_line("cancel", "w1", "--reason", "changed my mind")
    command_line("evaluator", "--until-idle")

    status = command_line("status", "w1")
    again = command_line("dev", command_line.program, "--input", 'hosts=["a"]', "--id", "w1")

    assert "CANCELLED" in status.out
    for called in (status, again):
        assert "afl-stream continue" not in called.out + called.err
