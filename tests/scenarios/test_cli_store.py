"""`afl-stream store check` and `store purge`: what they say, and how they end."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from afl_stream.exit_codes import ExitCode
from tests.scenarios.command_lines import CommandLine


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


def run(cli: CommandLine, workflow_id: str, *words: str) -> None:
    """Start a run that ends, or waits if there are no handlers."""
    cli("dev", cli.program, "--input", 'hosts=["a", "bc"]', "--id", workflow_id, *words)


def finished(cli: CommandLine, workflow_id: str = "w-1") -> None:
    run(cli, workflow_id, "--handlers", cli.handlers)


def write(cli: CommandLine, sql: str) -> None:
    with closing(sqlite3.connect(cli.data_dir / "store.sqlite3")) as file, file:
        file.execute(sql)


def test_a_store_at_rest_is_clean_and_the_check_ends_with_0(cli: CommandLine) -> None:
    finished(cli)
    run(cli, "w-2")

    called = cli("store", "check")

    assert (called.code, called.out) == (ExitCode.OK, "")
    assert called.err.startswith("0 findings; looked at 2 workflows, ")
    document = cli("store", "check", "--json").document
    assert (document["findings"], document["busy"], document["looked_at"]["workflows"]) == ([], [], 2)


def test_each_finding_is_a_line_and_the_check_ends_with_1(cli: CommandLine) -> None:
    finished(cli)
    write(cli, "UPDATE step SET revision = 99 WHERE id = (SELECT min(id) FROM step)")

    called = cli("store", "check")

    assert called.code == ExitCode.WORK_LEFT
    (line,) = called.out.splitlines()
    assert line.startswith("step.revision  w-1  w-1:")
    assert "found revision 99; expected 1 to " in line
    assert called.err.startswith("1 finding; ")
    (finding,) = cli("store", "check", "--json").document["findings"]
    assert finding["kind"] == "step.revision"
    assert set(finding) == {"kind", "workflow_id", "subject", "found", "expected"}


def test_undecodable_text_is_a_finding_of_a_check_and_an_error_of_other_commands(cli: CommandLine) -> None:
    finished(cli)
    write(cli, "UPDATE workflow SET name = CAST(X'ff80' AS TEXT)")

    check = cli("store", "check")
    status = cli("status")

    assert check.code == ExitCode.WORK_LEFT
    assert "workflow.unreadable" in check.out
    assert "workflow w-1" in check.out
    assert status.code == ExitCode.UNAVAILABLE
    assert "is damaged: workflow w-1: Could not decode to UTF-8" in status.err
    assert "Traceback" not in check.err + status.err


def test_events_in_the_outbox_are_held_against_their_lanes_and_steps(cli: CommandLine) -> None:
    finished(cli)
    headers = "x'" + b'[["ce_type","afl.event.net.Ping"]]'.hex() + "'"
    for lane, key in (("control/999", "w-1:gone"), ("elsewhere", "w-1")):
        write(
            cli,
            "INSERT INTO outbox(created_at_ms, lane, topic, key, headers)"
            f" VALUES (1, '{lane}', 'afl.events.net.Ping', CAST('{key}' AS BLOB), {headers})",
        )

    found = cli("store", "check").out.splitlines()

    assert [line.split("  ")[0] for line in found] == ["outbox.lane", "outbox.step", "outbox.lane"]


def test_a_store_that_is_not_there_or_not_one_ends_with_3(cli: CommandLine) -> None:
    assert cli("store", "check").code == ExitCode.UNAVAILABLE
    cli.data_dir.mkdir()
    (cli.data_dir / "store.sqlite3").write_text("no database")

    called = cli("store", "check")

    assert (called.code, called.out) == (ExitCode.UNAVAILABLE, "")
    assert "is damaged" in called.err


def test_a_dry_run_says_what_would_go_and_deletes_nothing(cli: CommandLine) -> None:
    finished(cli)
    run(cli, "w-2")

    called = cli("store", "purge", "--older-than", "0s", "--dry-run")

    assert called.code == ExitCode.OK
    assert called.out.endswith(": would be purged\n")
    assert called.out.startswith("w-1  net.Watch  COMPLETED, ended ")
    assert [run["workflow_id"] for run in cli("status", "--json").document] == ["w-2", "w-1"]


def test_what_ended_long_enough_ago_goes_and_the_rest_stays(cli: CommandLine) -> None:
    finished(cli)
    run(cli, "w-2")

    assert cli("store", "purge", "--older-than", "1h", "--json").document["purged"] == []
    document = cli("store", "purge", "--older-than", "0s", "--json").document

    assert (document["purged"], document["kept"], document["dry_run"]) == (["w-1"], [], False)
    assert [run["workflow_id"] for run in cli("status", "--json").document] == ["w-2"]
    assert cli("store", "check").code == ExitCode.OK


def test_status_and_start_know_a_purged_run(cli: CommandLine) -> None:
    finished(cli)
    cli("store", "purge", "--workflow", "w-1")

    shown = cli("status", "w-1")
    again = cli("start", "Watch", "--input", 'hosts=["a", "bc"]', "--id", "w-1")
    other = cli("start", "Watch", "--input", 'hosts=["a"]', "--id", "w-1")

    assert "COMPLETED, started " in shown.out
    assert "purged " in shown.out
    assert cli("status", "w-1", "--json").document["purged"] is True
    assert (again.code, other.code) == (ExitCode.BAD_INPUT, ExitCode.BAD_INPUT)
    assert "has run before: it ended as COMPLETED on " in again.err
    assert "it had other inputs (it was purged, so they are not known any more)" in other.err
    assert "has ended: it is COMPLETED" in cli("cancel", "w-1").err
    assert "and was purged" in cli("fail", "w-1:0a1b2c").err


def test_a_run_that_is_named_and_purged_already_is_passed_over(cli: CommandLine) -> None:
    finished(cli)
    cli("store", "purge", "--workflow", "w-1")

    assert cli("store", "purge", "--workflow", "w-1", "--json").document["purged"] == []


def test_a_purge_that_was_interrupted_is_finished_by_the_next(cli: CommandLine) -> None:
    finished(cli)
    cli("store", "purge", "--workflow", "w-1")
    begun = "CAST(replace(CAST(document AS TEXT), 'purged\"', 'purging\"') AS BLOB)"
    write(cli, f"UPDATE tombstones SET state = 'purging', document = {begun}")

    assert cli("store", "purge", "--older-than", "1h", "--json").document["finished"] == 1
    assert cli("store", "check").code == ExitCode.OK


def test_a_run_whose_records_wait_is_kept_and_the_purge_ends_with_1(cli: CommandLine) -> None:
    finished(cli)
    write(cli, "INSERT INTO outbox(created_at_ms, lane, topic, key) VALUES (1, 'writer/x', 't', CAST('w-1' AS BLOB))")

    called = cli("store", "purge", "--workflow", "w-1")

    assert called.code == ExitCode.WORK_LEFT
    assert "kept: records of it wait to be published" in called.out
    assert called.err == "0 runs purged, 1 kept\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], ExitCode.BAD_INPUT, "set store.retention"),
        (["--older-than", "soon"], ExitCode.BAD_INPUT, "expected a time such as 30d"),
        (["--older-than", "1d", "--workflow", "w-1"], ExitCode.BAD_INPUT, "give one"),
        (["--workflow", "nowhere"], ExitCode.UNAVAILABLE, "there is no run nowhere"),
        (["--workflow", "w-2"], ExitCode.BAD_INPUT, "end it with: afl-stream cancel w-2"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_goes(
    cli: CommandLine, words: list[str], code: ExitCode, said: str
) -> None:
    finished(cli)
    run(cli, "w-2")

    called = cli("store", "purge", *words)

    assert (called.code, called.out) == (code, "")
    assert said in called.err
    assert len(cli("status", "--json").document) == 2


def test_the_setting_is_the_default_age(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(cli)
    monkeypatch.setenv("AFL_STORE_RETENTION", "0s")

    assert cli("store", "purge", "--json").document["purged"] == ["w-1"]


@pytest.mark.parametrize("setting", ["retention", "tombstone_retention"])
def test_a_setting_that_is_no_time_is_refused(cli: CommandLine, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv(f"AFL_STORE_{setting.upper()}", "a while")

    called = cli("store", "check")

    assert called.code == ExitCode.BAD_INPUT
    assert f"store.{setting}: found 'a while', expected a time such as 30d" in called.err
