"""`afl-stream audit`: on its own to standard output, and in a group into a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys).waiting()


def kinds(text: str) -> list[str]:
    return sorted(json.loads(line)["kind"] for line in text.splitlines())


def test_each_audit_to_standard_output_tells_everything_and_names_no_group(command_line: CommandLine) -> None:
    first, second = (command_line("audit", "--until-idle") for _ in range(2))

    assert kinds(first.out) == kinds(second.out) != []
    assert "from the beginning, in no group" in first.err


def test_an_audit_from_the_end_tells_nothing_of_what_was_before(command_line: CommandLine) -> None:
    called = command_line("audit", "--from-end", "--until-idle")

    assert (called.code, called.out) == (0, "")
    assert "from now on" in called.err


def test_audits_into_two_files_each_write_everything_and_continue_where_they_stopped(command_line: CommandLine) -> None:
    everything = kinds(command_line("audit", "--until-idle").out)
    files = [command_line.folder / name / "audit.jsonl" for name in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        for _ in range(2):
            assert command_line("audit", "--until-idle", "--file", str(file)).code == 0

    assert [kinds(file.read_text()) for file in files] == [everything, everything]


def test_audits_into_two_files_share_the_records_when_one_group_is_named_for_both(command_line: CommandLine) -> None:
    everything = kinds(command_line("audit", "--until-idle").out)
    files = [command_line.folder / name for name in ("one.jsonl", "two.jsonl")]
    for file in files:
        called = command_line("audit", "--until-idle", "--file", str(file), "--group", "shared")
        assert "audit of group shared to" in called.err

    assert [kinds(file.read_text()) for file in files] == [everything, []]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--group", "g"], "--group goes with --file PATH"),
        (["--group", "g", "--file", "-"], "--group goes with --file PATH"),
        (["--group", " ", "--file", "a.jsonl"], "--group needs a name"),
        (["--from-end", "--file", "a.jsonl"], "--from-end is for reading without --file"),
        (["--from-end", "--from-beginning"], "exclude each other"),
    ],
)
def test_options_that_make_no_sense_together_are_refused(
    command_line: CommandLine, words: list[str], message: str
) -> None:
    called = command_line("audit", *words)

    assert called.code == 2
    assert message in called.err
