"""Sinks take what telemetry makes: to standard logging as JSON, to one of one's own, and never at a run's expense."""

import io
import json
import logging

import pytest

from afl.core.clock import ManualClock
from afl.engine.types import ObjectType, StepId, WorkflowId
from afl.stores.public.step import StepDefinition
from afl.telemetry.logging_sink import LOGGER_NAME, JsonLinesFormatter, LoggingSink
from afl.telemetry.telemetry import Telemetry, TelemetryEvent, TelemetrySink

STEP = StepDefinition(
    id=StepId("w1:s1"), object_type=ObjectType.FACET, workflow_id=WorkflowId("w1"), facet_name="n.F", timestamp=5
)


class Kept(TelemetrySink):
    """A sink of one's own."""

    def __init__(self, event_types: frozenset[str] | None = None) -> None:
        self._event_types = event_types
        self.events: list[TelemetryEvent] = []
        self.is_closed = False

    @property
    def event_types(self) -> frozenset[str] | None:
        return self._event_types

    def emit(self, event: TelemetryEvent) -> None:
        self.events.append(event)

    def close(self) -> None:
        self.is_closed = True


class Raises(TelemetrySink):
    """A sink of which nothing works."""

    def emit(self, event: TelemetryEvent) -> None:
        raise OSError("the disk is full")

    def traceparent(self, workflow_id: str, event_id: str) -> str | None:
        raise OSError("the disk is full")

    def close(self) -> None:
        raise OSError("the disk is full")


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Lines:
    """A logger whose lines are kept, with the formatter of JSON lines."""

    def __init__(self, level: int = logging.DEBUG) -> None:
        self.stream = io.StringIO()
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(JsonLinesFormatter())
        self.logger = logging.Logger("afl.telemetry", level)
        self.logger.addHandler(handler)

    @property
    def written(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


def test_a_sink_gets_the_events_and_nothing_is_kept_beside_it() -> None:
    sink = Kept()
    telemetry = Telemetry(clock=ManualClock(7), sink=sink)

    telemetry.log_workflow_start("w1", "shop.Checkout")
    telemetry.close()

    assert sink.events == [
        TelemetryEvent(7, "workflow.start", "w1", details={"workflowName": "shop.Checkout"}),
    ]
    assert sink.is_closed
    assert telemetry.events == []


def test_a_sink_says_which_events_it_wants() -> None:
    telemetry = Telemetry(sink=Kept(frozenset({"step.error"})))

    assert telemetry.wanted() == {"step.error"}
    assert (telemetry.wants("step.error"), telemetry.wants("state.begin")) == (True, False)
    assert Telemetry(enabled=False).wanted() == frozenset()


def test_what_a_sink_raises_goes_nowhere_and_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry(sink=Raises())

    for _ in range(3):
        telemetry.log_workflow_start("w1", "shop.Checkout")
    assert telemetry.traceparent("w1", "e1") is None
    telemetry.close()

    lost = [record.getMessage() for record in caplog.records if "lost" in record.getMessage()]
    assert len(lost) == 1
    assert "workflow.start" in lost[0]
    assert "Raises raised OSError: the disk is full" in lost[0]
    assert telemetry.lost == 4


def test_an_error_without_a_text_is_told_all_the_same() -> None:
    telemetry = Telemetry()

    telemetry.log_workflow_error("w1", Unspeakable())

    assert telemetry.events[0].details == {
        "error": "(Unspeakable whose text cannot be read: its __str__ raised ValueError)",
        "errorType": "Unspeakable",
    }


def test_a_logged_event_is_one_line_of_json() -> None:
    lines = Lines()
    telemetry = Telemetry(clock=ManualClock(7), sink=LoggingSink(lines.logger))

    telemetry.log_state_transition(STEP, "a", "b")

    assert lines.written == [
        {
            "timestamp": 7,
            "eventType": "state.transition",
            "workflowId": "w1",
            "stepId": "w1:s1",
            "state": "b",
            "details": {"fromState": "a", "toState": "b"},
            "level": "INFO",
            "logger": "afl.telemetry",
        }
    ]


def test_any_handler_of_the_logger_writes_the_json_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, LOGGER_NAME):
        Telemetry(clock=ManualClock(7), sink=LoggingSink()).log_iteration_start("w1", 3)

    (record,) = caplog.records
    expected = {"timestamp": 7, "eventType": "iteration.start", "workflowId": "w1", "details": {"iteration": 3}}
    assert record.name == "afl.telemetry"
    assert json.loads(record.getMessage()) == expected
    assert record.__dict__["telemetry"] == expected


def test_levels_tell_errors_from_news_and_from_details() -> None:
    lines = Lines(logging.INFO)
    telemetry = Telemetry(sink=LoggingSink(lines.logger))

    telemetry.log_state_begin(STEP, "a")
    telemetry.log_step_created(STEP)
    telemetry.log_error(STEP, "a", ValueError("no"))
    telemetry.log_workflow_error("w1", ValueError("no"))

    assert [(line["eventType"], line["level"]) for line in lines.written] == [
        ("step.created", "INFO"),
        ("step.error", "WARNING"),
        ("workflow.error", "ERROR"),
    ]


def test_a_logger_that_is_silent_costs_no_json() -> None:
    lines = Lines(logging.ERROR)
    telemetry = Telemetry(sink=LoggingSink(lines.logger))

    telemetry.log_workflow_complete("w1", {"r": 1})

    assert lines.written == []


@pytest.mark.parametrize(("values", "details"), [(False, {}), (True, {"result": {"card": "4111"}})])
def test_outputs_are_logged_only_where_that_is_asked_for(values: bool, details: dict[str, object]) -> None:
    lines = Lines()
    sink = LoggingSink(lines.logger, values=values)

    Telemetry(sink=sink).log_workflow_complete("w1", {"card": "4111"})

    assert lines.written[0]["details"] == details


@pytest.mark.parametrize("text", ["支払い\n二行目", 'a "quoted" \\ text', "half \ud83d of a pair", "%s %d"])
def test_any_text_stays_one_line_that_json_reads_back(text: str) -> None:
    lines = Lines()

    Telemetry(sink=LoggingSink(lines.logger)).log_workflow_error("w1", ValueError(text))

    (line,) = lines.written
    assert isinstance(line["details"], dict)
    assert line["details"]["error"] == text.replace("\ud83d", "\\ud83d")


def test_the_formatter_makes_one_line_of_everything_else_that_is_logged() -> None:
    lines = Lines()
    try:
        raise ValueError("no funds")
    except ValueError:
        lines.logger.warning("payment %d failed", 7, exc_info=True)

    (line,) = lines.written
    assert (line["level"], line["logger"], line["message"]) == ("WARNING", "afl.telemetry", "payment 7 failed")
    assert "ValueError: no funds" in str(line["exception"])


def test_a_logger_wants_no_event_that_its_level_leaves_out() -> None:
    assert LoggingSink(Lines(logging.DEBUG).logger).event_types is None
    assert LoggingSink(Lines(logging.WARNING).logger).event_types == frozenset({"step.error", "workflow.error"})
