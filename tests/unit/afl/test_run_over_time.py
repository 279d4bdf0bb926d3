"""`afl run` of workflows that wait: for times, external events, next attempts, and answers that time out."""

import json
from pathlib import Path

import pytest

from afl.cli import main
from afl.commands.local_run import Answers, RaisedEvent, RealTime, run_locally
from afl.compiled.program import CompiledProgram
from afl.compiler import compile_text
from afl.core.clock import ManualClock, SkippingClock

Captured = pytest.CaptureFixture[bytes]

_ORDER = """
namespace order {
    event facet Ship(to: String) => (parcel: String)
    workflow Order(to: String) => (paid: Json, late: Boolean, parcel: String) andThen {
        paid = afl.WaitForEvent(name = "paid", timeout_ms = 86400000)
        rest = afl.Sleep(hours = 12)
        parcel = Ship(to = $.to ++ "") with Retry(times = 2, delay_ms = 3600000)
        yield Order(paid = paid.data, late = paid.timed_out, parcel = parcel.parcel)
    }
    workflow Ask() => (answer: Json) andThen {
        a = afl.WaitForEvent(name = "answer")
        yield Ask(answer = a.data)
    }
    workflow Timed() => (parcel: String) andThen {
        s = Ship(to = "me") with Timeout(hours = 2)
        yield Timed(parcel = s.parcel)
    }
    workflow Count(n: Int) => (n: Int) andThen when {
        case $.n < 20 => { next = afl.ContinueAsNew(inputs = #{"n": $.n + 1}) }
        case _ => { yield Count(n = $.n) }
    }
}
"""


@pytest.fixture
def order(tmp_path: Path) -> str:
    path = tmp_path / "order.afl"
    path.write_text(_ORDER)
    return str(path)


@pytest.fixture
def shipping(tmp_path: Path) -> str:
    """Answers of a carrier that is busy at first."""
    path = tmp_path / "answers.json"
    path.write_text(json.dumps({"Ship": [{"$error": "busy"}, {"$error": "busy"}, {"parcel": "p1"}]}))
    return str(path)


def run(*arguments: str) -> int:
    return main(["run", *arguments])


def test_time_is_jumped_over_and_an_event_is_taken(order: str, shipping: str, capsysbinary: Captured) -> None:
    code = run(
        order, "--workflow", "Order", "-i", "to=Rome", "--raise", 'paid={"cents": 5}', "--skip-time",
        "--answers", shipping,
    )  # fmt: skip

    out, err = capsysbinary.readouterr()
    assert (code, json.loads(out)) == (0, {"paid": {"cents": 5}, "late": False, "parcel": "p1"})
    assert err == b""


def test_a_wait_with_a_limit_ends_without_its_event(order: str, shipping: str, capsysbinary: Captured) -> None:
    assert run(order, "--workflow", "Order", "-i", "to=Rome", "--skip-time", "--answers", shipping) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"paid": None, "late": True, "parcel": "p1"}


def test_a_run_that_waits_for_an_event_that_nobody_raises_says_which_one(order: str, capsysbinary: Captured) -> None:
    assert run(order, "--workflow", "Ask", "--raise", "other=1") == 1

    out, err = capsysbinary.readouterr()
    assert out == b""
    assert err.decode().splitlines() == [
        "note: event other was raised, and no step has waited for it",
        "waiting: order.Ask.a for event answer",
        "no event is left for that; raise one by --raise answer=JSON",
    ]


@pytest.mark.parametrize(("given", "answer"), [("answer", None), ("answer=null", None), ('answer="yes"', "yes")])
def test_the_data_of_an_event_is_json(order: str, capsysbinary: Captured, given: str, answer: object) -> None:
    assert run(order, "--workflow", "Ask", "--raise", given) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"answer": answer}


@pytest.mark.parametrize(("given", "said"), [("=1", "wanted NAME=JSON"), ("answer=yes", "not JSON")])
def test_an_event_that_is_none_runs_nothing(order: str, capsysbinary: Captured, given: str, said: str) -> None:
    assert run(order, "--workflow", "Ask", "--raise", given) == 2
    assert said in capsysbinary.readouterr().err.decode()


def test_an_answer_that_is_not_there_times_out_where_time_is_skipped(order: str, capsysbinary: Captured) -> None:
    assert run(order, "--workflow", "Timed", "--skip-time") == 1
    assert "Timeout: attempt 1 had no answer before its deadline" in capsysbinary.readouterr().err.decode()

    # Nobody sits through two hours for an answer that does not come.
    assert run(order, "--workflow", "Timed") == 3
    assert "no answers are left" in capsysbinary.readouterr().err.decode()


def test_a_workflow_that_continues_as_new_runs_to_the_end_of_its_last_execution(
    order: str, capsysbinary: Captured
) -> None:
    assert run(order, "--workflow", "Count", "-i", "n=0") == 0
    assert json.loads(capsysbinary.readouterr().out) == {"n": 20}


def test_without_skipping_it_waits_for_each_time_and_says_so() -> None:
    program = CompiledProgram(compile_text(_ORDER).program_json)
    clock, said = ManualClock(1_000), list[str]()
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(int(seconds * 1_000))

    done = run_locally(
        program, "order.Order", {"to": "Rome"}, Answers({"Ship": [{"parcel": "p"}]}, program),
        events=[RaisedEvent("paid", 1)], passing=RealTime(clock, pause, said.append),
    )  # fmt: skip

    assert done.outputs == {"paid": 1, "late": False, "parcel": "p"}
    # Twelve hours, a minute at a time.
    assert pauses == [60.0] * 720
    assert said == ["waits until 1970-01-01 12:00:01 UTC; --skip-time does not"]


def test_a_clock_that_skips_goes_on_from_where_it_was_moved_to() -> None:
    below = ManualClock(1_000)
    clock = SkippingClock(below)

    clock.skip_to(5_000)
    below.advance(100)
    clock.skip_to(2_000)

    assert (clock.now_ms(), clock.monotonic_s()) == (5_100, 5.1)
