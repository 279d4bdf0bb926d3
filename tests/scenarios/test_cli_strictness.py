"""No command of a deployment takes a program that `afl check` refuses, unless it is told to be lenient."""

from pathlib import Path

import pytest

from tests.scenarios.command_lines import HANDLERS, PROGRAM, CommandLine

#: The call of Note has a typo: in a program that is an error, in a library it may be left open.
TYPO = PROGRAM.replace("n = Note(", "n = Noet(")


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


@pytest.mark.parametrize("command", [["topics", "plan"], ["topics", "apply"], ["deploy"], ["dev"]], ids=" ".join)
def test_a_program_that_leaves_something_open_is_refused_with_what_was_meant(
    command: list[str], command_line: CommandLine
) -> None:
    program = command_line.file("typo.afl", TYPO)

    called = command_line(*command, program)

    assert (called.code, called.out) == (2, "")
    assert "error[REF_UNKNOWN_FACET]: Unknown facet 'Noet'" in called.err
    assert "did you mean net.Note?" in called.err


def test_a_lenient_deployment_takes_it_and_the_remedies_that_it_shows_are_lenient_too(
    command_line: CommandLine,
) -> None:
    program = command_line.file("typo.afl", TYPO)

    plan = command_line("topics", "plan", program, "--lenient")
    assert plan.code == 0
    assert f"afl-stream topics apply {program} --lenient" in plan.err
    assert "warning[REF_UNKNOWN_FACET]" in plan.err
    command_line("topics", "apply")
    refused = command_line("deploy", program, "--lenient")
    assert refused.code == 3
    assert f"topics apply {program} --lenient" in refused.err
    assert command_line("topics", "apply", program, "--lenient").code == 0
    assert command_line("deploy", program, "--lenient").code == 0


def test_a_strict_deployment_takes_no_warnings(command_line: CommandLine) -> None:
    program = command_line.file("warned.afl", "workflow W()")

    assert command_line("topics", "apply", program).code == 0
    called = command_line("deploy", program, "--strict")
    assert called.code == 2
    assert "error[WORKFLOW_AT_TOP_LEVEL]" in called.err


def test_a_handler_of_a_misspelt_facet_is_asked_about_before_a_topic_is_advised(command_line: CommandLine) -> None:
    handlers = command_line.file("typo.py", HANDLERS.replace("net.Note", "net.Noet"))

    called = command_line.deployed()("agent", "--handlers", handlers, "--until-idle")

    assert called.code == 3
    assert "net.Noet; did you mean net.Note? If the name is right, create the topic with: afl-stream" in called.err
