"""`afl-stream schedule`, command by command: what it says, refuses, and brings about."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from afl.engine.model.store import Batch, ScheduleChange
from afl.stores.sqlite.store import SqliteStore
from tests.scenarios.command_lines import CommandLine

INPUTS = ("--input", 'hosts=["abc"]')
CRON = ("--cron", "30 2 * * *")


@pytest.fixture
def deployed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys).deployed()


@pytest.fixture
def kept(deployed: CommandLine) -> CommandLine:
    """With two schedules: nightly, far from any clock that is set, and often, which is paused."""
    assert deployed("schedule", "create", "nightly", "Watch", *CRON, *INPUTS, "--start", "2090-01-01").code == 0
    assert deployed("schedule", "create", "often", "Watch", "--every", "15m", *INPUTS, "--paused").code == 0
    assert deployed("evaluator", "--until-idle").code == 0
    return deployed


def test_create_shows_the_next_five_firings_in_the_zone_and_who_keeps_it(deployed: CommandLine) -> None:
    zone = ("--zone", "Europe/Berlin", "--start", "2090-07-01", "--end", "2090-07-04T02:30")
    called = deployed("schedule", "create", "nightly", "Watch", *CRON, *zone, *INPUTS)

    assert called.code == 0
    first, heading, *firings = called.out.splitlines()
    assert first == "schedule nightly is created: it starts net.Watch  30 2 * * * (Europe/Berlin)"
    assert heading == "next firings:"
    assert [line[2:21] for line in firings] == [f"2090-07-0{day} 02:30:00" for day in range(1, 5)]
    assert "an evaluator keeps it: afl-stream evaluator --until-idle" in called.err


def test_what_is_created_is_shown_as_json_too(deployed: CommandLine) -> None:
    options = ("--every", "90s", "--overlap", "queue", "--catch-up", "5m", "--start", "2090-01-01T01:00+01:00")
    document = deployed("schedule", "create", "often", "Watch", *options, *INPUTS, "--json").document

    assert document == {
        "schedule_id": "often",
        "workflow": "net.Watch",
        "program": None,
        "inputs": {"hosts": ["abc"]},
        "cron": None,
        "time_zone": "UTC",
        "interval_ms": 90_000,
        "start_at": "2090-01-01T00:00:00.000Z",
        "end_at": None,
        "overlap": "queue",
        "catch_up_ms": 300_000,
        "paused": False,
        "next_firings": [
            f"2090-01-01T00:0{minute}:{second}.000Z"
            for minute, second in ((0, "00"), (1, "30"), (3, "00"), (4, "30"), (6, "00"))
        ],
        "answered": False,
    }


def test_list_fits_a_screen_and_shows_each_next_firing(kept: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    called = kept("schedule", "list")

    assert max(map(len, called.out.splitlines())) <= 80
    assert "2090-01-01 02:30:00 UTC" in called.out
    assert "paused" in called.out


def test_list_says_how_a_first_schedule_is_created(deployed: CommandLine) -> None:
    assert deployed("evaluator", "--until-idle").code == 0
    called = deployed("schedule", "list")

    assert called.code == 0
    assert "no schedules yet; create one with: afl-stream schedule create nightly WORKFLOW" in called.err


def test_a_triggered_run_is_shown_as_the_last(kept: CommandLine) -> None:
    assert kept("schedule", "trigger", "often").code == 0
    assert kept("evaluator", "--until-idle").code == 0

    document = kept("schedule", "show", "often", "--json").document
    assert (document["triggered"], document["fired"], document["last_run_status"]) == (1, 0, "PAUSED")
    shown = kept("schedule", "show", "often").out
    assert f"last run: {document['last_run']}  PAUSED" in shown
    assert "fired 0, triggered 1" in shown
    assert kept("status", document["last_run"], "--json").document["workflow"] == "net.Watch"


def test_a_schedule_is_resumed_paused_and_deleted(kept: CommandLine) -> None:
    kept("schedule", "resume", "often")
    assert kept("schedule", "pause", "nightly").out == "schedule nightly is to be paused\n"
    kept("evaluator", "--until-idle")
    listed = {schedule["schedule_id"]: schedule for schedule in kept("schedule", "list", "--json").document}
    assert (listed["nightly"]["paused"], listed["nightly"]["next_firings"]) == (True, [])
    assert len(listed["often"]["next_firings"]) == 5

    kept("schedule", "delete", "nightly")
    kept("evaluator", "--until-idle")
    assert [schedule["schedule_id"] for schedule in kept("schedule", "list", "--json").document] == ["often"]


def test_a_schedule_of_the_same_id_is_replaced(kept: CommandLine) -> None:
    called = kept("schedule", "create", "often", "Watch", "--every", "1h", *INPUTS)

    assert "schedule often is replaced: it starts net.Watch  every 1h" in called.out


def test_a_misspelt_schedule_is_not_found_and_its_name_is_guessed(kept: CommandLine) -> None:
    shown = kept("schedule", "show", "nightl")
    assert shown.code == 3
    assert "there is no schedule nightl; did you mean nightly?" in shown.err

    paused = kept("schedule", "pause", "nightl")
    assert paused.code == 0
    assert "Note: there is no schedule nightl; did you mean nightly?" in paused.err


def test_a_check_of_the_store_finds_schedules_that_would_not_fire_as_they_say(kept: CommandLine) -> None:
    assert kept("store", "check").code == 0
    with closing(SqliteStore(kept.data_dir / "store.sqlite3")) as store:
        nightly, often = store.schedules()
        wrong = json.loads(json.dumps(nightly.document).replace("UTC", "Atlantis/City"))
        rows = (
            nightly._replace(revision=nightly.revision + 1, document=wrong),
            often._replace(revision=often.revision + 1, next_at_ms=0),
        )
        store.commit_batch(Batch(schedules=[ScheduleChange(row.id, row.revision - 1, row) for row in rows]))

    called = kept("store", "check")

    assert called.code == 1
    lines = called.out.splitlines()
    assert [line.startswith("schedule.document ") for line in lines] == [True, True]
    assert "schedule nightly cannot be read" in lines[0]
    assert "No time zone found with key Atlantis/City" in lines[0]
    assert " often" in lines[1]
    assert "next time 1970-01-01T00:00:00.000Z" in lines[1]
    assert "never, as its times say" in lines[1]


MISTAKES = [
    (("x", "Watc", *CRON, *INPUTS), 3, "no deployed workflow Watc; did you mean net.Watch?"),
    (("x", "Watch", *CRON), 2, "needs input hosts"),
    (("x", "Watch", *CRON, "--input", "hosts=3"), 2, "hosts"),
    (("x", "Watch", *INPUTS), 2, "neither is given"),
    (("x", "Watch", *CRON, "--every", "15m", *INPUTS), 2, "both are given"),
    (("x", "Watch", "--cron", "30 2 * *", *INPUTS), 2, "4 fields; expected 5: minute hour"),
    (("x", "Watch", "--cron", "0 0 31 2 *", *INPUTS), 2, "Error: --cron: '0 0 31 2 *' never comes"),
    (("x", "Watch", "--cron", "61 2 * * *", *INPUTS), 2, "--cron: '61 2 * * *' cannot be used: the minute is '61'"),
    (("x", "Watch", *CRON, "--zone", "CEST", *INPUTS), 2, "--zone: 'CEST' is no time zone; its name is Area/City"),
    (("x", "Watch", *CRON, "--zone", "", *INPUTS), 2, "--zone: '' is no time zone; its name is Area/City"),
    (("x", "Watch", *CRON, "--zone", "Berlin", *INPUTS), 2, "--zone: 'Berlin' is no time zone; did you mean Europe/B"),
    (("x", "Watch", "--every", "15m", "--zone", "UTC", *INPUTS), 2, "--zone goes with --cron"),
    (("x", "Watch", "--every", "15", *INPUTS), 2, "--every 15: expected a time such as"),
    (("x", "Watch", "--every", "0s", *INPUTS), 2, "Error: --every: 0 ms is too short"),
    (("x", "Watch", *CRON, "--start", "tomorrow", *INPUTS), 2, "--start tomorrow: expected a time such as 2030-01-31"),
    (
        ("x", "Watch", *CRON, "--start", "2030-02-01", "--end", "2030-01-01", *INPUTS),
        2,
        "Error: --end: the end is before",
    ),
    (("x", "Watch", *CRON, "--end", "2001-01-01", *INPUTS), 2, "Error: --end: no firing is left"),
    (("x", "Watch", *CRON, "--catch-up", "1s", *INPUTS), 2, "Error: --catch-up: 1000 ms is not"),
    (("x", "Watch", *CRON, "--overlap", "wait", *INPUTS), 2, "'skip', 'queue', 'allow'"),
    (("a b", "Watch", *CRON, *INPUTS), 2, "not a valid schedule id"),
]


@pytest.mark.parametrize(("words", "code", "said"), MISTAKES, ids=[said for _, _, said in MISTAKES])
def test_a_mistake_is_named_and_nothing_is_sent(
    deployed: CommandLine, words: tuple[str, ...], code: int, said: str
) -> None:
    before = deployed.records()
    called = deployed("schedule", "create", *words)

    assert called.code == code
    assert said in called.err.replace("\n", " ")
    assert deployed.records() == before
