"""Headers of records and of dead letters."""

from typing import Any

import pytest

from afl_stream.errors import Reason, SchemaUnavailable, Unreadable
from afl_stream.transport import Headers, Record
from afl_stream.wire.dead_letters import DlqHeader, dead_letter_headers, dlq_header
from afl_stream.wire.headers import (
    ContinueHeaders,
    HeaderForm,
    cloud_event_id,
    header,
    headers_for,
    trace_context,
)
from afl_stream.wire.messages import (
    CancelWorkflow,
    Event,
    ExternalEvent,
    Lifecycle,
    Message,
    Pause,
    ProgramDefinition,
    ProgramPointer,
    StartWorkflow,
    StepContinue,
    StoreClaim,
)

TRACE = (("traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("tracestate", b"a=b"))

EVENT = Event(
    id="w:ab#2",
    workflow_id="w",
    execution_id="e",
    step_id="w:ab",
    event_type="billing.Pay",
    state="event.Created",
    payload={},
    attempt=2,
    created_at=1_700_000_000_123,
)


def test_an_event_carries_cloud_event_attributes_versions_and_attempt() -> None:
    assert headers_for(EVENT, source="/afl/evaluator", form=HeaderForm.CLOUDEVENTS) == (
        ("ce_specversion", b"1.0"),
        ("ce_id", b"w:ab#2"),
        ("ce_type", b"afl.event.billing.Pay"),
        ("ce_source", b"/afl/evaluator"),
        ("ce_time", b"2023-11-14T22:13:20.123Z"),
        ("ce_subject", b"w:ab"),
        ("afl_attempt", b"2"),
        ("content-type", b"application/avro"),
        ("afl_workflow_version", b"1.0"),
        ("afl_step_schema_version", b"1.0"),
        ("afl_runtime_version", b"0.1.0"),
    )


def test_an_answer_carries_the_trace_of_its_event_and_the_time_it_is_told() -> None:
    answer = StepContinue(step_id="w:ab", event_id="w:ab#2", attempt=2)
    headers = headers_for(answer, source="/afl/agent", at_ms=0, caused_by=(*TRACE, ("other", b"x")))

    assert headers[-2:] == TRACE
    assert header(headers, "ce_id") == "w:ab#2:StepContinue"
    assert header(headers, "ce_time") == "1970-01-01T00:00:00.000Z"
    assert header(headers, "other") is None


def test_the_headers_of_recurring_answers_are_those_of_any_answer() -> None:
    answer = StepContinue(step_id="w:ab", workflow_id="w", event_id="w:ab#2", attempt=2)

    recurring = ContinueHeaders(source="/afl/agent").of(event=EVENT, at_ms=5, caused_by=TRACE)

    assert recurring == headers_for(answer, source="/afl/agent", at_ms=5, caused_by=TRACE)


def test_trace_context_is_passed_on_and_nothing_else() -> None:
    assert trace_context([("a", b"1"), *TRACE, ("b", b"2")]) == TRACE


@pytest.mark.parametrize(
    ("message", "identity"),
    [
        (EVENT, "w:ab#2"),
        (StepContinue(step_id="w:ab"), "w:ab:StepContinue"),
        (StepContinue(step_id="w:ab", attempt=3), "w:ab#3:StepContinue"),
        (StartWorkflow(workflow_id="w", workflow="a.B"), "w:StartWorkflow"),
        (CancelWorkflow(workflow_id="w"), "w:CancelWorkflow"),
        (ExternalEvent(workflow_id="w", name="n", id="x"), "x"),
        (ExternalEvent(workflow_id="w", name="n"), "w:n:0"),
        (Lifecycle(workflow_id="w", kind="workflow.started", at=5), "w:workflow.started:5"),
        (ProgramDefinition(fingerprint="f", program=b""), "f"),
        (ProgramPointer(workflow="a.B", fingerprint="f"), "a.B:f"),
        (StoreClaim(store="s", mark="m", number=1, location="l", host="h", at=5), "s:m"),
        (Pause(scope="facet", name="a.F", is_paused=True, at=5), "pause:facet:a.F:5"),
    ],
)
def test_a_record_that_is_sent_again_has_the_same_id(message: Message, identity: str) -> None:
    assert cloud_event_id(message) == identity


def letter_of(record: Record, error: Exception, **more: Any) -> Headers:
    return dead_letter_headers(record, error, at_ms=0, **more)


def test_a_dead_letter_says_where_it_was_and_why() -> None:
    record = Record("afl.control", 3, 17, b"wf-1", b"?", (("keep", b"me"), ("afl_attempt", b"2")), 1_700_000_000_123)
    headers = letter_of(record, Unreadable(Reason.BAD_AVRO, "a length of -1"), tries=3, by=(("afl.dlq.agent", b"a1"),))

    assert headers == (
        ("keep", b"me"),
        ("afl_attempt", b"2"),
        ("afl.dlq.topic", b"afl.control"),
        ("afl.dlq.partition", b"3"),
        ("afl.dlq.offset", b"17"),
        ("afl.dlq.timestamp", b"1700000000123"),
        ("afl.dlq.reason", b"bad_avro"),
        ("afl.dlq.error_class", b"Unreadable"),
        ("afl.dlq.error", b"bad_avro: a length of -1"),
        ("afl.dlq.attempt", b"2"),
        ("afl.dlq.tries", b"3"),
        ("afl.dlq.time", b"1970-01-01T00:00:00.000Z"),
        ("afl.dlq.key", b"wf-1"),
        ("afl.dlq.agent", b"a1"),
    )


def test_a_dead_letter_leaves_out_what_its_record_does_not_have() -> None:
    names = {name for name, _ in letter_of(Record("a", 0, 1, None, None), ValueError("x"))}

    assert names == {
        f"afl.dlq.{name}" for name in ("topic", "partition", "offset", "reason", "error_class", "error", "time")
    }


def test_a_dead_letter_that_dies_again_names_its_last_origin_only() -> None:
    first = letter_of(Record("a", 0, 1, None, None), ValueError("x"))
    earlier = (("afl_dlq_topic", b"older"), ("afl_dlq_reason", b"old"))
    mark = (("afl.dlq.replayed_from", b"dlq.a[0]@7"),)
    again = letter_of(Record("dlq.a", 0, 2, None, None, (*earlier, *first, *mark)), KeyError("y"))

    assert [value for name, value in again if name == "afl.dlq.topic"] == [b"dlq.a"]
    assert header(again, "afl.dlq.reason") == "KeyError"
    assert header(again, "afl.dlq.replayed_from") == "dlq.a[0]@7", "it says that it was replayed before"
    assert len(again) == len(first) + 1


def test_a_dead_letter_of_an_earlier_release_says_what_it_said() -> None:
    headers = (("afl_dlq_topic", b"afl.control"), ("afl_dlq_reason", b"bad_json"))

    assert dlq_header(headers, DlqHeader.TOPIC) == "afl.control"
    assert dlq_header(headers, DlqHeader.REASON) == "bad_json"
    assert dlq_header(headers, DlqHeader.ERROR) is None
    assert dlq_header((*headers, ("afl.dlq.reason", b"bad_avro")), DlqHeader.REASON) == "bad_avro"


def test_an_errors_text_is_cut_and_always_utf8() -> None:
    error = SchemaUnavailable("x", "\ud800" + "y" * 5_000)
    text = header(letter_of(Record("a", 0, 1, None, None), error), "afl.dlq.error")

    assert text is not None
    assert "\\ud800" in text
    assert len(text) < 1_100


def test_the_last_of_several_headers_counts() -> None:
    assert header([("a", b"1"), ("a", b"2")], "a") == "2"
