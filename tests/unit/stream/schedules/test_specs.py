"""What a schedule may say, and the times that follow from it."""

from dataclasses import replace

import pytest

from afl_stream.errors import IdRefused
from afl_stream.schedules.firings import run_id
from afl_stream.schedules.spec import (
    Overlap,
    ScheduleRefused,
    ScheduleSpec,
    check_fires,
    command_of,
    spec_of,
)
from afl_stream.wire.messages import check_workflow_id
from afl_stream.wire.schedule_commands import PutSchedule
from tests.unit.stream.schedules.times import ms, shown

CRON = PutSchedule(schedule_id="nightly", workflow="shop.Checkout", cron="30 2 * * *", time_zone="Europe/Berlin")
EVERY = PutSchedule(schedule_id="often", workflow="shop.Checkout", interval_ms=900_000)


def test_intervals_are_counted_from_the_epoch() -> None:
    found = spec_of(EVERY).next_firings(ms("2026-01-01 00:01"), 3)

    assert [shown(at) for at in found] == ["2026-01-01 00:15:00", "2026-01-01 00:30:00", "2026-01-01 00:45:00"]


def test_intervals_are_counted_from_the_start_where_there_is_one() -> None:
    spec = spec_of(replace(EVERY, start_at=ms("2026-01-01 00:07")))

    assert [shown(at) for at in spec.next_firings(ms("2025-12-01 00:00"), 2)] == [
        "2026-01-01 00:07:00",
        "2026-01-01 00:22:00",
    ]
    assert shown(spec.next_firing(ms("2026-01-01 00:07"))) == "2026-01-01 00:22:00"


def test_start_and_end_are_firings_themselves_and_nothing_is_beyond_them() -> None:
    spec = spec_of(replace(CRON, start_at=ms("2026-06-01 00:30"), end_at=ms("2026-06-03 00:30")))

    assert [shown(at) for at in spec.next_firings(0, 9)] == [
        "2026-06-01 00:30:00",
        "2026-06-02 00:30:00",
        "2026-06-03 00:30:00",
    ]


def test_what_is_not_said_is_skip_an_hour_and_utc() -> None:
    spec = spec_of(EVERY)

    assert (spec.overlap, spec.catch_up_ms, spec.time_zone) == (Overlap.SKIP, 3_600_000, "UTC")


@pytest.mark.parametrize(
    ("changes", "part", "said"),
    [
        ({"cron": None}, "times", "neither is given"),
        ({"interval_ms": 60_000}, "times", "both are given"),
        ({"cron": "30 2 * *"}, "cron", "'30 2 * *' cannot be used: it has 4 fields"),
        ({"cron": "0 0 31 2 *"}, "cron", "never comes"),
        ({"cron": ",".join(["0"] * 501) + " 2 * * *"}, "cron", "1,009 characters are too long: 1,000 are the most"),
        ({"time_zone": "Europe/Berln"}, "time_zone", "did you mean Europe/Berlin?"),
        ({"time_zone": "Berlin"}, "time_zone", "did you mean Europe/Berlin?"),
        ({"time_zone": "new york"}, "time_zone", "did you mean America/New_York?"),
        ({"time_zone": "Europe"}, "time_zone", "Area/City"),
        ({"time_zone": "../etc/passwd"}, "time_zone", "Area/City"),
        ({"start_at": ms("2026-02-01 00:00"), "end_at": ms("2026-01-01 00:00")}, "end_at", "before the start"),
        ({"start_at": -1}, "start_at", "no time"),
        ({"overlap": "wait"}, "overlap", "skip, queue, allow"),
        ({"catch_up_ms": 5_000}, "catch_up_ms", "between 10 s and 365 days"),
        ({"workflow": ""}, "workflow", "name of a workflow"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused_with_what_would_be_right(
    changes: dict[str, object], part: str, said: str
) -> None:
    with pytest.raises(ScheduleRefused) as refused:
        spec_of(replace(CRON, **changes))  # type: ignore[arg-type]  # fields by name

    assert refused.value.part == part
    assert said in str(refused.value)


def test_an_interval_below_a_second_is_refused() -> None:
    with pytest.raises(ScheduleRefused, match="999 ms is too short"):
        spec_of(replace(EVERY, interval_ms=999))


def test_an_interval_has_no_time_zone() -> None:
    with pytest.raises(ScheduleRefused, match="goes with a cron"):
        spec_of(replace(EVERY, time_zone="Europe/Berlin"))


@pytest.mark.parametrize("schedule_id", ["", "a b", "x" * 101, "#republish/1", "a/b"])
def test_an_id_that_begins_no_workflow_id_is_refused(schedule_id: str) -> None:
    with pytest.raises(IdRefused, match="1 to 100 characters"):
        spec_of(replace(CRON, schedule_id=schedule_id))


def test_the_longest_id_still_makes_workflow_ids() -> None:
    at_ms = ms("2026-01-02 03:04:05")

    assert run_id("x", at_ms) == "x-20260102T030405Z"
    assert check_workflow_id(run_id("x" * 100, at_ms, is_trigger=True)).endswith("x-20260102T030405Z-t")


def test_a_schedule_whose_end_is_over_never_fires() -> None:
    spec = spec_of(replace(EVERY, end_at=ms("2026-01-01 00:00")))

    check_fires(spec, ms("2025-12-31 23:50"))
    with pytest.raises(ScheduleRefused, match="no firing is left"):
        check_fires(spec, ms("2026-01-01 00:00"))


@pytest.mark.parametrize("command", [CRON, EVERY, replace(EVERY, overlap="queue", inputs={"order": 17})])
def test_the_command_of_a_spec_asks_for_that_spec(command: PutSchedule) -> None:
    spec = spec_of(command)

    assert spec_of(command_of("other", spec)) == spec


def test_a_spec_with_a_zone_and_an_interval_is_refused_too() -> None:
    with pytest.raises(ScheduleRefused, match="goes with a cron"):
        spec_of(command_of("x", ScheduleSpec(workflow="a.B", interval_ms=1_000, time_zone="Europe/Berlin")))


#: The last moment that has a name.
LAST_MS = 253_402_300_799_999


@pytest.mark.parametrize("part", ["start_at", "end_at"])
def test_times_that_have_no_name_are_refused(part: str) -> None:
    spec_of(PutSchedule(schedule_id="s", workflow="n.W", interval_ms=1_000, **{part: LAST_MS}))  # type: ignore[arg-type]
    for at in (LAST_MS + 1, 2**63 - 1, -1):
        with pytest.raises(ScheduleRefused, match="is no time"):
            spec_of(PutSchedule(schedule_id="s", workflow="n.W", interval_ms=1_000, **{part: at}))  # type: ignore[arg-type]


def test_nothing_fires_behind_the_last_moment_that_has_a_name() -> None:
    spec = spec_of(PutSchedule(schedule_id="s", workflow="n.W", interval_ms=2**63 - 1, start_at=1_700_000_000_000))

    assert spec.next_firings(0, 3) == [1_700_000_000_000]
    with pytest.raises(ScheduleRefused, match="no firing is left"):
        check_fires(spec, 1_700_000_000_000)
