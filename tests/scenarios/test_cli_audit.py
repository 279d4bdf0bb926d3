"""`afl-stream audit`: on its own to standard output, and in a group into a file."""

from __future__ import annotations

import json
import sqlite3
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


def test_an_audit_of_one_facet_tells_its_events_and_nothing_of_others(command_line: CommandLine) -> None:
    called = command_line("audit", "--until-idle", "--facet", "net.Note")

    lines = [json.loads(line) for line in called.out.splitlines()]
    assert [(line["kind"], line["facet"]) for line in lines] == [("event", "net.Note")]


def test_an_audit_of_a_facet_without_a_topic_says_so(command_line: CommandLine) -> None:
    misspelt = command_line("audit", "--until-idle", "--facet", "Noet")

    assert (misspelt.code, misspelt.out) == (0, "")
    assert "Note: no topic carries events of a facet Noet; did you mean net.Note?" in misspelt.err
    for facet in ("Note", "net.Note"):
        assert "no topic carries" not in command_line("audit", "--until-idle", "--facet", facet).err


def test_an_audit_of_a_time_before_the_deployment_tells_nothing(command_line: CommandLine) -> None:
    assert command_line("audit", "--until-idle", "--from", "1h").out
    assert command_line("audit", "--until-idle", "--to", "2020-01-01").out == ""
    assert command_line("audit", "--until-idle", "--from", "2020-01-01T00:00Z", "--to", "2020-01-02").out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--from", "yesterday"], "expected `beginning`, `latest`, or a time such as"),
        (["--to", "soon"], "expected a time such as 2026-11-30"),
        (["--from", "latest", "--file", "a.jsonl"], "--from latest is for reading without --file"),
        (["--from", "1h", "--from-end"], "do not go with it"),
        (["--from", "1h", "--to", "2h"], "--to is not later than --from"),
        (["--format", "sqlite"], "--format goes with --file"),
        (["--until-idle", "verify", "a.jsonl"], "--until-idle: options go behind `verify`"),
    ],
)
def test_times_and_forms_that_mean_nothing_are_refused(
    command_line: CommandLine, words: list[str], message: str
) -> None:
    called = command_line("audit", *words)

    assert called.code == 2
    assert message in " ".join(called.err.split())


@pytest.mark.parametrize("name", ["audit.jsonl", "audit.db"])
def test_an_audit_is_verified_and_a_changed_line_is_found(command_line: CommandLine, name: str) -> None:
    file = command_line.folder / name
    command_line("audit", "--until-idle", "--file", str(file))

    intact = command_line("audit", "verify", str(file))
    assert intact.code == 0
    assert "unchanged" in intact.out
    head = intact.out.split()[-1]
    assert command_line("audit", "verify", str(file), "--json").document["head"] == head
    assert command_line("audit", "verify", str(file), "--head", head).code == 0

    if name == "audit.db":
        connection = sqlite3.connect(file)
        connection.execute("UPDATE audit_line SET line = replace(line, 'net.Note', 'net.Nope')")
        connection.commit()
        connection.close()
    else:
        file.write_bytes(file.read_bytes().replace(b"net.Note", b"net.Nope"))
    changed = command_line("audit", "verify", str(file))
    assert changed.code == 1
    assert "NOT as it was written" in changed.out
    assert "is not what was written" in changed.out


def test_a_cut_tail_is_found_by_the_head_that_was_kept(command_line: CommandLine) -> None:
    file = command_line.folder / "audit.jsonl"
    command_line("audit", "--until-idle", "--file", str(file))
    head = command_line("audit", "verify", str(file), "--json").document["head"]
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))

    assert command_line("audit", "verify", str(file)).code == 0
    called = command_line("audit", "verify", str(file), "--head", head)
    assert called.code == 1
    assert f"no line has the head {head}" in called.out
    kept = command_line.file("heads.txt", f"on Monday: {head}\n")
    assert command_line("audit", "verify", str(file), "--head", f"@{kept}").out == called.out
    empty = command_line("audit", "verify", str(file), "--head", f"@{command_line.program}")
    assert empty.code == 2
    assert "has no head" in empty.err


def test_lines_that_an_audit_wrote_to_standard_output_are_not_called_unchanged(command_line: CommandLine) -> None:
    file = Path(command_line.program).parent / "from-standard-output.jsonl"
    file.write_text('{"kind":"event","topic":"t","partition":0,"offset":0}\n')

    called = command_line("audit", "verify", str(file))

    assert called.code == 1
    assert "1 line, none with a hash: whether they were changed cannot be told" in called.out
    assert "unchanged" not in called.out
    assert command_line("audit", "verify", str(file), "--json").document["intact"] is False


def test_verify_says_what_it_cannot_read(command_line: CommandLine) -> None:
    called = command_line("audit", "verify", "nothing.jsonl")
    assert called.code == 2
    assert "does not exist; expected a file that `afl-stream audit --file` has written" in called.err

    assert command_line("audit", "verify", "nothing.jsonl", "--head", "abc").code == 2


def test_forms_are_told_by_the_name_and_a_wrong_one_is_refused(command_line: CommandLine) -> None:
    database, folder = command_line.folder / "audit.db", command_line.folder / "audits"
    folder.mkdir()
    command_line("audit", "--until-idle", "--file", str(database))

    assert database.read_bytes().startswith(b"SQLite format 3")
    as_lines = command_line("audit", "--until-idle", "--file", str(database), "--format", "jsonl")
    assert as_lines.code == 2
    assert "is a SQLite database" in as_lines.err
    assert "is a folder" in command_line("audit", "--until-idle", "--file", str(folder)).err
