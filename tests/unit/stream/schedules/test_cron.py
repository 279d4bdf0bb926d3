"""Cron expressions in time zones, on the days on which clocks are set too."""

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl_stream.schedules.cron import BadCron, Cron
from tests.unit.stream.schedules.times import ms, shown


def firings(text: str, zone: str, after: str, count: int) -> list[str | None]:
    """Return the next firings, in UTC."""
    cron, at, found = Cron(text, ZoneInfo(zone)), ms(after), []
    for _ in range(count):
        at = cron.next_after(at) or 0
        found.append(shown(at))
    return found


def test_each_time_of_the_day_comes_once_a_day() -> None:
    assert firings("30 2 * * *", "UTC", "2026-01-01 02:30:00", 2) == ["2026-01-02 02:30:00", "2026-01-03 02:30:00"]


def test_a_time_that_the_clock_is_set_ahead_over_fires_once_at_the_change() -> None:
    # Berlin, 29 March 2026: 02:00 (+01:00) is followed by 03:00 (+02:00) at 01:00 UTC.
    assert firings("30 2 * * *", "Europe/Berlin", "2026-03-27 12:00", 4) == [
        "2026-03-28 01:30:00",
        "2026-03-29 01:00:00",
        "2026-03-30 00:30:00",
        "2026-03-31 00:30:00",
    ]
    # New York, 8 March 2026: 02:00 (-05:00) is followed by 03:00 (-04:00) at 07:00 UTC.
    assert firings("30 2 * * *", "America/New_York", "2026-03-06 12:00", 4) == [
        "2026-03-07 07:30:00",
        "2026-03-08 07:00:00",
        "2026-03-09 06:30:00",
        "2026-03-10 06:30:00",
    ]


def test_a_time_that_comes_twice_when_the_clock_is_set_back_fires_the_first_time_only() -> None:
    # Berlin, 25 October 2026: 03:00 (+02:00) is followed by 02:00 (+01:00) at 01:00 UTC.
    assert firings("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", 2) == [
        "2026-10-25 00:30:00",
        "2026-10-26 01:30:00",
    ]
    # New York, 1 November 2026: 02:00 (-04:00) is followed by 01:00 (-05:00) at 06:00 UTC.
    assert firings("30 1 * * *", "America/New_York", "2026-10-31 12:00", 2) == [
        "2026-11-01 05:30:00",
        "2026-11-02 06:30:00",
    ]


def test_asked_within_the_repeated_hour_a_daily_time_is_the_next_days() -> None:
    # 01:15 UTC is 02:15 in Berlin for the second time: 02:30 is over for this day.
    assert firings("30 2 * * *", "Europe/Berlin", "2026-10-25 01:15", 1) == ["2026-10-26 01:30:00"]


def test_all_times_of_an_hour_that_is_left_out_are_one_firing() -> None:
    assert firings("*/10 2 * * *", "Europe/Berlin", "2026-03-28 01:45", 3) == [
        "2026-03-28 01:50:00",
        "2026-03-29 01:00:00",
        "2026-03-30 00:00:00",
    ]


def test_an_expression_of_every_hour_goes_by_the_time_that_passes() -> None:
    assert firings("*/30 * * * *", "Europe/Berlin", "2026-03-29 00:15", 4) == [
        "2026-03-29 00:30:00",
        "2026-03-29 01:00:00",
        "2026-03-29 01:30:00",
        "2026-03-29 02:00:00",
    ]
    assert firings("*/30 * * * *", "Europe/Berlin", "2026-10-24 23:45", 5) == [
        "2026-10-25 00:00:00",
        "2026-10-25 00:30:00",
        "2026-10-25 01:00:00",
        "2026-10-25 01:30:00",
        "2026-10-25 02:00:00",
    ]


def test_an_hour_that_is_left_out_has_no_firing_of_an_expression_of_every_hour() -> None:
    assert firings("15 * * * *", "Europe/Berlin", "2026-03-29 00:00", 2) == [
        "2026-03-29 00:15:00",
        "2026-03-29 01:15:00",
    ]


def test_the_repeated_hour_is_there_for_minutes_that_are_over_in_the_first() -> None:
    # 00:20 UTC is 02:20 in Berlin, for the first time: 02:15 comes again at 01:15 UTC.
    assert firings("15 * * * *", "Europe/Berlin", "2026-10-25 00:20", 2) == [
        "2026-10-25 01:15:00",
        "2026-10-25 02:15:00",
    ]


def test_every_other_hour_is_a_list_of_times_of_the_day() -> None:
    assert firings("0 */2 * * *", "Europe/Berlin", "2026-10-24 21:30", 3) == [
        "2026-10-24 22:00:00",
        "2026-10-25 00:00:00",
        "2026-10-25 03:00:00",
    ]


def test_leap_days_come_every_four_years_and_not_in_2100() -> None:
    assert firings("0 12 29 2 *", "UTC", "2024-02-29 12:00", 1) == ["2028-02-29 12:00:00"]
    assert firings("0 12 29 2 *", "UTC", "2096-02-29 12:00", 1) == ["2104-02-29 12:00:00"]


def test_of_six_fields_the_first_is_the_second() -> None:
    assert firings("15 30 2 * * *", "UTC", "2026-01-01 00:00", 1) == ["2026-01-01 02:30:15"]
    assert firings("*/20 * * * * *", "UTC", "2026-01-01 00:00", 2) == ["2026-01-01 00:00:20", "2026-01-01 00:00:40"]


def test_a_nickname_is_an_expression() -> None:
    assert firings("@daily", "Asia/Tokyo", "2026-01-01 00:00", 1) == ["2026-01-01 15:00:00"]


def test_names_of_days_and_the_last_day_of_a_month_are_understood() -> None:
    # 2 January 2026 is a Friday.
    assert firings("0 9 * * mon", "UTC", "2026-01-02 00:00", 1) == ["2026-01-05 09:00:00"]
    assert firings("0 9 L * *", "UTC", "2026-02-02 00:00", 1) == ["2026-02-28 09:00:00"]


def test_a_date_that_never_comes_has_no_firing() -> None:
    assert Cron("0 0 31 2 *", ZoneInfo("UTC")).next_after(0) is None


def test_after_the_calendar_there_is_no_firing() -> None:
    assert Cron("0 0 1 1 *", ZoneInfo("UTC")).next_after(ms("9999-06-01 00:00")) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("30 2 * *", "4 fields; expected 5: minute hour day-of-month month day-of-week"),
        ("", "0 fields"),
        ("0 0 * * * * 2030", "7 fields"),
        ("61 * * * *", "the minute is '61'; expected 0 to 59"),
        ("30 25 * * *", "the hour is '25'; expected 0 to 23"),
        ("30 2 0 * *", "the day of the month is '0'; expected 1 to 31"),
        ("30 2 * 13 *", "the month is '13'; expected 1 to 12 or jan to dec"),
        ("30 2 * * funday", "the day of the week is 'funday'; expected 0 to 7"),
        ("60 0 0 * * *", "the second is '60'; expected 0 to 59"),
        ("a b c d e", "the minute is 'a'"),
        ("*/0 * * * *", "the minute is '*/0'"),
        ("H 2 * * *", "at random"),
        ("@never", "one of @hourly, @daily"),
    ],
)
def test_an_expression_that_cannot_be_read_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(BadCron, match=said.replace("*", r"\*")):
        Cron(text, ZoneInfo("UTC"))


ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kathmandu", "America/Sao_Paulo")


@given(
    zone=st.sampled_from(ZONES),
    text=st.sampled_from(("*/7 * * * *", "15 * * * *", "30 2 * * *", "0,45 1-3 * * *", "5 */5 * * sun")),
    after_ms=st.integers(ms("2015-01-01 00:00"), ms("2035-01-01 00:00")),
)
def test_the_next_firing_of_any_moment_before_it_is_the_same(zone: str, text: str, after_ms: int) -> None:
    cron = Cron(text, ZoneInfo(zone))
    at = cron.next_after(after_ms)

    assert at is not None
    assert at > after_ms
    assert cron.next_after(at - 1_000) == at
    assert cron.next_after((after_ms + at) // 2) == at
