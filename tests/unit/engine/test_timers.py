"""Sleeping, waiting until a moment, and deadlines: each timer fires once, and none is left over."""

from datetime import UTC, datetime

import pytest

from afl.engine.limits import MAX_TIMEOUT_MS
from afl.engine.model.store import TimerKind, TimerRow
from afl.engine.operations.operations import Kind
from afl.engine.states import EventState
from tests.unit.engine.waiting_runs import START_MS, MakeRun, WaitingRun, make_run

__all__ = ["make_run"]

SLEEP = "workflow W() => (r: Long) andThen { s = afl.Sleep(%s)  yield W(r = s.woke_at) }"
UNTIL = """
    workflow W(time: String = "", at: Long = 0) => (r: Long) andThen {
        u = afl.WaitUntil(time = $.time, at_ms = $.at)
        yield W(r = u.woke_at)
    }
"""
CALL = """
    event facet E() => (r: Json)
    workflow W() => (r: Json) andThen {
        e = E() with Timeout(ms = 500)
        yield W(r = e.r)
    }
"""
CAUGHT = CALL.rstrip().removesuffix("}") + """} catch { yield W(r = $.error_type) }"""


# --- sleeping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pause", "ms"),
    [
        ("ms = 7", 7),
        ("seconds = 2, ms = 1", 2_001),
        ("minutes = 1", 60_000),
        ("hours = 1, minutes = 1", 3_660_000),
        ("days = 36500", 36_500 * 86_400_000),
    ],
)
def test_a_sleep_ends_when_its_time_is_over(make_run: MakeRun, pause: str, ms: int) -> None:
    run = make_run(SLEEP % pause).start()
    assert (run.status, run.due()) == ("PAUSED", [("sleep", ms)])
    assert run.document("s").event_state == EventState.WAITING

    assert run.advance(ms - 1).status == "PAUSED"
    run.advance(1)

    assert run.outputs == {"r": START_MS + ms}
    assert run.timers() == []


@pytest.mark.parametrize("pause", ["", "ms = 0", "days = 0, hours = 0"])
def test_a_sleep_of_no_time_does_not_pause(make_run: MakeRun, pause: str) -> None:
    assert make_run(SLEEP % pause).start().outputs == {"r": START_MS}


@pytest.mark.parametrize(
    ("pause", "message"),
    [
        ("minutes = -5, hours = 1", "afl.Sleep: minutes is -5, expected 0 or more"),
        ("days = 36501", "afl.Sleep: the pause is 3153686400000 ms, expected a hundred years at most"),
    ],
)
def test_a_sleep_of_a_wrong_time_fails_its_step(make_run: MakeRun, pause: str, message: str) -> None:
    run = make_run(SLEEP % pause).start()

    assert run.error() == ("InvalidWait", message)


def test_a_value_of_another_type_fails_the_step(make_run: MakeRun) -> None:
    run = make_run("""
        workflow W(pause: Json) andThen { s = afl.Sleep(ms = $.pause) }
    """).start({"pause": "soon"})

    assert run.error() == ("InvalidWait", 'afl.Sleep: ms is "soon", expected 0 or more')


def test_sleeps_of_a_foreach_end_in_order_of_time(make_run: MakeRun) -> None:
    run = make_run("""
        workflow W(times: [Long]) => (r: [Long]) andThen foreach ms in $.times {
            s = afl.Sleep(ms = ms)
            yield W(r = [s.woke_at])
        }
    """).start({"times": [30, 10, 20, 10]})
    assert run.due() == [("sleep", 10), ("sleep", 10), ("sleep", 20), ("sleep", 30)]

    run.advance(20)
    assert run.waiting() == ["[0].s"]
    run.advance(100)

    assert run.outputs == {"r": [START_MS + ms for ms in (30, 10, 20, 10)]}


def test_a_timer_fires_once(make_run: MakeRun) -> None:
    run = make_run(SLEEP % "ms = 5").start()
    (timer,) = run.timers()

    assert run.fire(timer)
    assert not run.fire(timer)


def test_a_timer_of_another_time_or_kind_does_nothing(make_run: MakeRun) -> None:
    run = make_run(SLEEP % "ms = 5").start()
    (timer,) = run.timers()

    assert not run.fire(timer._replace(due_at_ms=timer.due_at_ms + 1))
    assert not run.fire(timer._replace(kind=TimerKind.DEADLINE))
    assert not run.fire(timer._replace(kind=TimerKind.RETRY))
    assert not run.fire(TimerRow("run:unknown", "run", TimerKind.SLEEP, timer.due_at_ms))
    assert run.due() == [("sleep", 5)]


def test_a_sleeping_step_may_be_woken_by_hand(make_run: MakeRun) -> None:
    run = make_run(SLEEP % "days = 1").start()
    run.now_ms += 5

    run.answer("s")

    assert run.outputs == {"r": START_MS + 5}
    assert run.timers() == []


# --- moments ----------------------------------------------------------------------------------------------------------


def text_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat()


@pytest.mark.parametrize("inputs", [{"time": text_of(START_MS + 2_000)}, {"at": START_MS + 2_000}])
def test_a_step_waits_until_a_moment(make_run: MakeRun, inputs: dict[str, str | int]) -> None:
    run = make_run(UNTIL).start(inputs)
    assert run.due() == [("sleep", 2_000)]

    run.advance(2_000)

    assert run.outputs == {"r": START_MS + 2_000}


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("2030-01-31T09:00:00+01:00", 1_896_076_800_000),
        ("2030-01-31T08:00:00Z", 1_896_076_800_000),
        ("2030-01-31 03:00:00.250-05:00", 1_896_076_800_250),
        ("2028-02-29T00:00:00Z", 1_835_395_200_000),
    ],
)
def test_a_moment_counts_with_its_zone(text: str, at_ms: int) -> None:
    run = WaitingRun(UNTIL).start({"time": text})

    assert run.due() == [("sleep", at_ms - START_MS)]


@pytest.mark.parametrize(
    "inputs", [{"time": "1969-12-31T23:59:59Z"}, {"at": START_MS}, {"at": 1}, {"time": text_of(START_MS)}]
)
def test_a_moment_that_has_come_is_not_waited_for(make_run: MakeRun, inputs: dict[str, str | int]) -> None:
    assert make_run(UNTIL).start(inputs).outputs == {"r": START_MS}


A_TIME = "a time with its zone, such as 2030-01-31T09:00:00+01:00 or 2030-01-31T08:00:00Z"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"time": "2030-01-31T09:00:00"}, f'time is "2030-01-31T09:00:00", which has no zone, expected {A_TIME}'),
        ({"time": "2030-01-31"}, f'time is "2030-01-31", which has no zone, expected {A_TIME}'),
        (
            {"time": "2030-02-30T09:00:00Z"},
            f'time is "2030-02-30T09:00:00Z" (day is out of range for month), expected {A_TIME}',
        ),
        ({"time": "tomorrow"}, f'time is "tomorrow", expected {A_TIME}'),
        ({}, "the time is nothing, expected either time or at_ms"),
        (
            {"time": "2030-01-31T08:00:00Z", "at": 5},
            'the time is "2030-01-31T08:00:00Z" and 5, expected either time or at_ms',
        ),
        ({"at": -1}, "at_ms is -1, expected milliseconds since the epoch"),
        (
            {"at": START_MS + MAX_TIMEOUT_MS + 1},
            f"the time is {START_MS + MAX_TIMEOUT_MS + 1} ms since the epoch, "
            "expected a hundred years from now at most",
        ),
        (
            {"time": "9999-12-31T23:59:59-23:59"},
            "the time is 253402387139000 ms since the epoch, expected a hundred years from now at most",
        ),
    ],
)
def test_what_is_no_moment_fails_the_step(make_run: MakeRun, inputs: dict[str, str | int], message: str) -> None:
    run = make_run(UNTIL).start(inputs)

    assert run.error() == ("InvalidWait", f"afl.WaitUntil: {message}")


def test_an_error_of_a_wait_can_be_caught(make_run: MakeRun) -> None:
    run = make_run("""
        workflow W() => (r: String) andThen { s = afl.Sleep(ms = -1) } catch { yield W(r = $.error_type) }
    """).start()

    assert run.outputs == {"r": "InvalidWait"}


# --- deadlines --------------------------------------------------------------------------------------------------------


def test_an_event_without_an_answer_in_time_fails_its_step(make_run: MakeRun) -> None:
    run = make_run(CALL).start()
    assert run.due() == [("deadline", 500)]

    assert run.advance(499).status == "PAUSED"
    run.advance(1)

    message = "attempt 1 had no answer before its deadline, 1970-01-01T00:16:40.500Z"
    assert run.error() == ("Timeout", message)
    assert run.document("e").event_state == EventState.EXPIRED
    assert run.timers() == []


def test_a_catch_sees_the_timeout(make_run: MakeRun) -> None:
    assert make_run(CAUGHT).start().advance(500).outputs == {"r": "Timeout"}


def test_an_answer_in_time_ends_the_deadline(make_run: MakeRun) -> None:
    run = make_run(CALL).start()
    (timer,) = run.timers()
    run.advance(400)

    run.answer("e", r="in time")

    assert run.outputs == {"r": "in time"}
    assert run.timers() == []
    assert not run.fire(timer)


def test_a_failure_in_time_ends_the_deadline(make_run: MakeRun) -> None:
    run = make_run(CAUGHT).start()

    run.fail("e", "Broken")

    assert run.outputs == {"r": "Broken"}
    assert run.timers() == []


def test_a_partial_answer_does_not_move_the_deadline(make_run: MakeRun) -> None:
    run = make_run(CALL).start()
    run.advance(400)

    run.update("e", r="part")

    assert run.due() == [("deadline", 500)]
    run.advance(100)
    assert run.error()[0] == "Timeout"


def test_the_deadline_counts_from_when_the_event_is_sent(make_run: MakeRun) -> None:
    run = make_run(
        """
        event facet E(x: Long) => (r: Json)
        workflow W(list: [Long] = [1, 2]) => (r: [Json]) andThen foreach x in $.list {
            e = E(x = x) with Timeout(ms = 500)
            yield W(r = [e.r])
        }
        """,
        max_open_events=1,
    ).start()
    assert run.due() == [("deadline", 500)]
    run.advance(300)

    run.answer("[0].e", r=1)

    assert run.due() == [("deadline", 800)]


def test_a_deadline_makes_room_for_the_next_event(make_run: MakeRun) -> None:
    run = make_run(
        """
        event facet E(x: Long) => (r: Json)
        facet Tried(x: Long) => (r: Json) andThen {
            e = E(x = $.x) with Timeout(ms = 500)
            yield Tried(r = e.r)
        } catch { yield Tried(r = $.error_type) }
        workflow W(list: [Long] = [1, 2]) => (r: [Json]) andThen foreach x in $.list {
            t = Tried(x = x)
            yield W(r = [t.r])
        }
        """,
        max_open_events=1,
    ).start()

    run.advance(500)
    assert run.waiting() == ["[1].t.e"]
    run.advance(499)
    run.answer("[1].t.e", r=2)

    assert run.outputs == {"r": ["Timeout", 2]}


@pytest.mark.parametrize(
    ("default_ms", "due"), [(200, [("deadline", 200), ("deadline", 500)]), (None, [("deadline", 500)])]
)
def test_a_default_deadline_holds_where_the_program_gives_none(
    make_run: MakeRun, default_ms: int | None, due: list[tuple[str, int]]
) -> None:
    run = make_run(
        """
        event facet E() => (r: Json)
        event facet F() => (r: Json)
        workflow W() => (r: Json) andThen {
            e = E() with Timeout(ms = 500)
            f = F()
            yield W(r = [e.r, f.r])
        }
        """,
        deadlines={"n.E": 100, "n.F": default_ms}.get,
    ).start()

    assert run.due() == due


def test_no_default_deadline_is_put_on_a_wait(make_run: MakeRun) -> None:
    run = make_run('workflow W() andThen { a = afl.WaitForEvent(name = "x") }', deadlines=lambda _: 100).start()

    assert run.due() == []


def test_a_mixin_has_the_deadline_of_its_signature(make_run: MakeRun) -> None:
    run = make_run("""
        event facet E() => (r: Json) with Timeout(ms = 50)
        facet Base() => (r: Json) with E() as e andThen { yield Base(r = $.e.r) }
        workflow W() => (r: Json) andThen {
            b = Base()
            yield W(r = b.r)
        } catch { yield W(r = $.error_type) }
    """).start()
    assert run.due() == [("deadline", 50)]

    assert run.advance(50).outputs == {"r": "Timeout"}


def test_a_cancelled_run_has_no_deadlines(make_run: MakeRun) -> None:
    run = make_run(CALL).start()

    run.cancel()

    assert run.timers() == []


def test_an_event_that_cannot_be_sent_has_no_timer(make_run: MakeRun) -> None:
    run = make_run("""
        event facet E(x: Long) => (r: Json)
        workflow W(x: Long) => (r: Json) andThen {
            e = E(x = $.x * $.x) with Timeout(ms = 500)
            yield W(r = e.r)
        }
    """).start({"x": 2**40})

    assert run.status == "ERROR"
    assert run.document("e").deadline_ms is None


# --- operators --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.RETRY, Kind.RERUN])
def test_a_step_that_is_tried_again_after_a_timeout_has_a_new_deadline(make_run: MakeRun, kind: Kind) -> None:
    run = make_run(CALL).start().advance(600)

    run.operate(kind, "e")

    assert run.due() == [("deadline", 1_100)]
    run.answer_step(run.timers()[0].step_id, {"r": "at last"})
    assert run.outputs == {"r": "at last"}


def test_a_step_that_is_run_again_while_it_is_open_has_one_deadline(make_run: MakeRun) -> None:
    run = make_run(CALL).start().advance(100)

    run.operate(Kind.RERUN, "e")

    assert run.due() == [("deadline", 600)]


def test_a_sleep_that_begins_again_needs_no_place_among_open_events(make_run: MakeRun) -> None:
    run = make_run(
        """
        event facet E() => (r: Json)
        workflow W() andThen {
            e = E()
            s = afl.Sleep(ms = 500)
        }
        """,
        max_open_events=1,
    ).start()
    run.cancel()

    run.operate(Kind.RETRY)

    assert run.due() == [("sleep", 500)]
    assert run.waiting() == ["e", "s"]


def test_a_mixin_that_is_run_again_takes_its_step_back_from_its_deadline(make_run: MakeRun) -> None:
    run = make_run("""
        event facet Part() => (p: Json)
        event facet E() => (r: Json) with Part() as part with Timeout(ms = 500)
        workflow W() => (r: Json) andThen {
            e = E()
            yield W(r = e.r)
        }
    """).start()
    run.answer("e.part", p=1)
    assert run.due() == [("deadline", 500)]

    run.operate(Kind.RESET)

    assert run.due() == []
