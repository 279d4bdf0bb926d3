"""`agent --check`: handlers without a facet, facets without a handler, and the exit code that says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine

OTHERS = """
def register_handlers(runner):
    runner.register("net.Pong", print)
    runner.register("Note", print)
    runner.register("net.Scan", print)
    runner.register("afl.WaitForEvent", print)
"""


@pytest.fixture
def line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


def test_handlers_of_all_facets_are_right(line: CommandLine) -> None:
    checked = line.deployed()("agent", "--handlers", line.handlers, "--check")

    assert checked.code == 0
    assert checked.out.splitlines() == ["net.Ping: handled", "net.Note: handled"]


def test_a_facet_that_leaves_none_out_is_told(line: CommandLine) -> None:
    called = line.deployed()("agent", "--handlers", line.handlers, "--facet", "Ping", "--until-idle")

    assert called.code == 0
    assert "names its facets itself, so --facet leaves none out: also net.Note" in called.err


def test_what_has_no_counterpart_is_named_with_what_was_meant(line: CommandLine) -> None:
    others = line.file("others.py", OTHERS)

    checked = line.deployed()("agent", "--handlers", others, "--check")

    assert checked.code == 1
    assert checked.out.splitlines() == [
        "net.Note: handled, as Note",
        "net.Pong: a handler without a facet: no deployed program has an event facet of this name; did you mean"
        " net.Ping?",
        "net.Scan: a handler without a facet: it is a facet, which asks no handler",
        "afl.WaitForEvent: a handler without a facet: no deployed program has an event facet of this name",
        "net.Ping: no handler here",
    ]


def test_several_modules_are_checked_together_and_nothing_runs(line: CommandLine) -> None:
    line.deployed()
    assert line("start", "Watch", "--input", "hosts=[]", "--id", "w1").code == 0
    ping = line.file("ping.py", 'FACET = "net.Ping"\n\n\ndef handle(payload):\n    raise SystemExit(9)\n')
    note = line.file("note.py", "def handle(payload):\n    return {}\n")
    before = line.records()

    checked = line("agent", "--handlers", ping, "--handlers", f"{note}=net.Note", "--check", "--json")

    assert checked.code == 0
    assert checked.document == {
        "handled": {"net.Ping": "net.Ping", "net.Note": "net.Note"},
        "unmatched": [],
        "unhandled": [],
    }
    assert line.records() == before


def test_what_is_registered_in_the_store_counts_with_registry(line: CommandLine) -> None:
    note = line.file("note.py", 'FACET = "net.Note"\n\n\ndef handle(payload):\n    return {}\n')
    line.deployed()
    assert line("handlers", "register", note).code == 0

    checked = line("agent", "--registry", "--check")

    assert (checked.code, checked.out.splitlines()) == (1, ["net.Note: handled", "net.Ping: no handler here"])


def test_without_a_program_there_is_nothing_to_compare_with(line: CommandLine) -> None:
    assert line("topics", "apply", line.program).code == 0

    checked = line("agent", "--handlers", line.handlers, "--check")

    assert checked.code == 1
    assert "no program is deployed here: afl-stream deploy FILE.afl" in checked.err
