"""What commands tell a person to do next fits the deployment, and nothing is asked for that no longer matters."""

from pathlib import Path

import pytest

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
