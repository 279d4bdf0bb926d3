"""`afl-stream dev` of workflows that wait for times and external events, which have neither topics nor handlers."""

from pathlib import Path

import pytest

from tests.scenarios.command_lines import CommandLine

PROGRAM = """
namespace order {
    event facet Ship(to: String) => (parcel: String)
    event facet Approve() => (by: String)

    workflow Order(to: String) => (parcel: String, late: Boolean, by: String) andThen {
        paid = afl.WaitForEvent(name = "paid", timeout_ms = 86400000)
        rest = afl.Sleep(days = 30)
        sent = Ship(to = $.to) with Retry(times = 2, delay_ms = 3600000)
        asked = Approve() with Timeout(hours = 5) catch {
            yield Approve(by = asked.error_type)
        }
        yield Order(parcel = sent.parcel, late = paid.timed_out, by = asked.by)
    }
    workflow Ask() => (answer: Json) andThen {
        a = afl.WaitForEvent(name = "answer")
        yield Ask(answer = a.data)
    }
}
"""
#: The carrier is busy at first.
HANDLERS = """
calls = []

def ship(payload):
    calls.append(payload)
    if len(calls) == 1:
        raise OSError("busy")
    return {"parcel": "p-" + payload["to"]}

def register_handlers(runner):
    runner.register("order.Ship", ship)
"""


@pytest.fixture
def command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, capsys)


@pytest.fixture
def program(command_line: CommandLine) -> str:
    return command_line.file("order.afl", PROGRAM)


def test_dev_jumps_over_sleeps_waits_pauses_and_answers_that_do_not_come(
    command_line: CommandLine, program: str
) -> None:
    handlers = command_line.file("carrier.py", HANDLERS)

    called = command_line(
        "dev", program, "--start", "Order", "--handlers", handlers, "--input", "to=Rome", "--skip-time", "--json"
    )

    assert called.code == 0, called.err
    assert called.document["outputs"] == {"parcel": "p-Rome", "late": True, "by": "Timeout"}
    # Two attempts of Ship, and one event that nobody answers: none for what the runtime answers.
    assert called.document["events"] == 3


def test_a_run_that_waits_for_an_event_that_nobody_raises_ends_dev_with_what_raises_it(
    command_line: CommandLine, program: str
) -> None:
    called = command_line("dev", program, "--start", "Ask", "--id", "a1", "--skip-time")

    assert called.code == 1
    assert "waits for event answer" in called.out
    assert f"afl-stream raise a1 answer DATA --data-dir {command_line.data_dir}" in called.out


def test_topics_are_planned_for_facets_of_agents_only(command_line: CommandLine, program: str) -> None:
    planned = {item["topic"] for item in command_line("topics", "plan", program, "--json").document}

    assert {topic for topic in planned if topic.startswith("afl.events.")} == {
        "afl.events.order.Ship",
        "afl.events.order.Approve",
    }
    assert not [topic for topic in planned if topic.endswith(("WaitForEvent", "Sleep"))]
    assert command_line("topics", "apply", program).code == 0
    assert command_line("deploy", program).code == 0


def test_a_handler_for_what_the_runtime_answers_is_refused(command_line: CommandLine, program: str) -> None:
    handlers = command_line.file(
        "sleeper.py", "def register_handlers(runner):\n    runner.register('afl.Sleep', lambda payload: {})\n"
    )

    called = command_line("dev", program, "--start", "Ask", "--handlers", handlers)

    assert called.code == 2
    assert "a handler is registered for afl.Sleep, which the runtime answers itself" in called.err
