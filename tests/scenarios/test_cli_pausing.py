"""`afl-stream pause` and `resume`, command by command, and what `status` says of pauses."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from afl.core.trace_context import derived_trace_id
from afl_stream.embedded.transport import EmbeddedBroker
from tests.scenarios.command_lines import CommandLine


@pytest.fixture
def waiting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys).waiting()


def test_a_paused_facet_is_shown_by_status_and_its_events_stay_until_it_is_resumed(waiting: CommandLine) -> None:
    paused = waiting("pause", "--facet", "Note", "--reason", "the printer is away")
    assert paused.code == 0
    assert "net.Note" in paused.out

    shown = waiting("status", "w1")
    assert "the printer is away" in shown.out
    assert "afl-stream resume --facet net.Note" in shown.out
    agent = ("agent", "--handlers", waiting.handlers, "--until-idle")
    assert waiting(*agent).code in (0, 1)
    assert waiting("evaluator", "--until-idle").code == 0
    assert len(waiting.steps("w1", "net.Note")) == 1
    assert waiting("status", "w1", "--json").document["status"] != "COMPLETED"

    assert waiting("resume", "--facet", "net.Note").code == 0
    assert waiting(*agent).code == 0
    assert waiting("evaluator", "--until-idle").code == 0
    done = waiting("status", "w1")
    assert "COMPLETED" in done.out
    assert "resume" not in done.out


def test_a_paused_run_is_named_only_where_it_is_shown(waiting: CommandLine) -> None:
    assert waiting("dev", waiting.program, "--input", "hosts=[]", "--id", "w2").code == 1
    assert waiting("pause", "--workflow", "w1").code == 0

    assert "afl-stream resume --workflow w1" in waiting("status", "w1").out
    # The table is for programs, too.
    assert "afl-stream resume --workflow w1" in waiting("status").err
    assert "afl-stream resume --workflow w1" in waiting("show", "w1").out
    other = waiting("status", "w2")
    assert "resume" not in other.out + other.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--facet", "Note", "--all"), "one at a time"),
        (("--facet", "Noat"), "Note"),
    ],
)
def test_what_is_to_be_paused_has_to_be_one_thing_that_there_is(
    waiting: CommandLine, words: tuple[str, ...], told: str
) -> None:
    called = waiting("pause", *words)

    assert called.code == 2
    assert told in called.err


def test_the_pause_of_a_run_that_is_not_there_says_so(waiting: CommandLine) -> None:
    assert waiting("dev", waiting.program, "--input", "hosts=[]", "--id", "order-17").code == 1
    mistyped, later = waiting("pause", "--workflow", "order-71"), waiting("pause", "--workflow", "x-1")

    assert (mistyped.code, later.code) == (0, 0)
    assert "there is no run order-71 in the store yet; did you mean order-17?" in mistyped.err
    assert "there is no run x-1 in the store yet: it is held as soon as it is started" in later.err
    assert waiting("pause", "--workflow", "order-17").err == ""
    assert waiting("resume", "--workflow", "order-71").err.startswith("still paused")


def test_the_pause_of_a_run_that_has_ended_says_so(waiting: CommandLine) -> None:
    assert waiting("cancel", "w1").code == 0
    assert waiting("evaluator", "--until-idle").code == 0

    assert "run w1 has ended as CANCELLED: nothing of it is held" in waiting("pause", "--workflow", "w1").err


def test_pause_alone_says_what_is_paused(waiting: CommandLine) -> None:
    assert waiting("pause").err == "nothing is paused\n"
    assert waiting("pause", "--all", "--reason", "a move").code == 0

    assert "a move" in waiting("pause").out


def test_watch_says_what_is_paused(waiting: CommandLine) -> None:
    assert waiting("pause", "--facet", "Note", "--reason", "the printer is away").code == 0
    assert waiting("pause", "--workflow", "w9").code == 0

    one, every = waiting("watch", "w1", "--timeout", "0.1"), waiting("watch", "--timeout", "0.1")

    assert "the printer is away" in one.err
    assert "w9" not in one.err
    assert "run w9 is paused" in every.err or "workflow w9 is paused" in every.err


def test_what_an_evaluator_has_heard_is_known_while_another_process_has_the_log(waiting: CommandLine) -> None:
    assert waiting("pause", "--facet", "Note").code == 0
    assert waiting("evaluator", "--until-idle").code == 0

    with closing(EmbeddedBroker(waiting.data_dir / "log.sqlite3")):
        shown, watched = waiting("status", "w1"), waiting("watch", "w1", "--timeout", "0.1")

    assert "afl-stream resume --facet net.Note" in shown.out
    assert "net.Note is paused" in watched.err


def test_status_names_the_trace(waiting: CommandLine) -> None:
    trace_id = waiting("status", "w1", "--json").document["trace_id"]

    assert re.search(r"^trace ([0-9a-f]{32})$", waiting("status", "w1").out, re.MULTILINE)
    # Nothing has named another one.
    assert trace_id == derived_trace_id("w1")
