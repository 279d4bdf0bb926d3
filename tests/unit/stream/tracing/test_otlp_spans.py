"""Spans by OTLP are what OpenTelemetry's own classes read, and a collector that is away costs no work."""

import logging

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from afl_stream.tracing.otlp import SpanEncoder
from afl_stream.tracing.otlp_sender import OtlpSender
from afl_stream.tracing.spans import PlainSpan, Row, Span, SpanEvent, SpanKind, SpanNotes, SpanPair, SpanTemplate
from afl_stream.tracing.tracer import MAX_WAITING, SpansNotSent, Tracer
from tests.worlds.otlp_receiver import receiving

TEMPLATE = SpanTemplate(
    "process afl.control", SpanKind.CONSUMER, {"messaging.system": "kafka"}, ("key", "offset", "long")
)
SPAN = Span(
    template=TEMPLATE,
    trace_id="0af7651916cd43dd8448eb211c80319c",
    span_id="b7ad6b7169203331",
    parent_id="00f067aa0ba902b7",
    start_ns=1_700_000_000_000_000_001,
    end_ns=1_700_000_000_000_000_005,
    values=("wf", 12_345, "日本語" * 300),
)


ANSWER_ID = "a1b2c3d4e5f60718"
#: The span of a handler and that of its answer.
HANDLED = PlainSpan(
    SpanPair(
        SpanTemplate(
            "process", SpanKind.CONSUMER, {"per cent": "100 %"}, ("step", "event", "workflow", "offset", "no")
        ),
        SpanTemplate("send", SpanKind.PRODUCER, {}, ("key", "conversation", "no")),
        (2, 2),
    ),
    # As in a `traceparent`, and behind it the other two.
    f"{SPAN.trace_id}-{SPAN.parent_id}{SPAN.span_id}{ANSWER_ID}",
    SPAN.start_ns,
    SPAN.end_ns,
    ("wf:1", "wf:1#1", "wf"),
    7,
    SPAN.end_ns + 2,
)


def attributes(span: OtlpSpan) -> dict[str, object]:
    found: dict[str, object] = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        assert kind is not None
        value = getattr(each.value, kind)
        found[each.key] = [item.int_value for item in value.values] if kind == "array_value" else value
    return found


def encoded(*rows: Row) -> list[OtlpSpan]:
    encoder = SpanEncoder({}, "a-scope", "1")
    content, count = encoder.encoded(rows)
    request = ExportTraceServiceRequest.FromString(encoder.request([content]))
    spans = list(request.resource_spans[0].scope_spans[0].spans)
    assert len(spans) == count
    return spans


def sent(span: Span, **environ: str) -> tuple[str, OtlpSpan]:
    with receiving() as receiver:
        sender = OtlpSender("a-service", receiver.url, environ)
        sender.export([sender.encoded([span])[0]])
        (found,) = receiver.spans()
    return found


def test_a_span_arrives_whole() -> None:
    service, span = sent(SPAN)

    assert service == "a-service"
    assert span.trace_id.hex() == SPAN.trace_id
    assert span.span_id.hex() == SPAN.span_id
    assert span.parent_span_id.hex() == SPAN.parent_id
    assert (span.name, span.kind) == ("process afl.control", OtlpSpan.SPAN_KIND_CONSUMER)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (SPAN.start_ns, SPAN.end_ns)
    assert attributes(span) == {"messaging.system": "kafka", "key": "wf", "offset": 12_345, "long": "日本語" * 300}
    assert span.status.code == Status.STATUS_CODE_UNSET


def test_a_handler_and_its_answer_arrive_as_two_spans() -> None:
    handled, answered = encoded(HANDLED)

    assert (handled.name, answered.name) == ("process", "send")
    assert attributes(handled) == {
        "per cent": "100 %", "step": "wf:1", "event": "wf:1#1", "workflow": "wf", "offset": 7,
    }  # fmt: skip
    assert attributes(answered) == {"key": "wf", "conversation": "wf"}
    assert (answered.parent_span_id, answered.trace_id) == (handled.span_id, handled.trace_id)
    assert (handled.span_id.hex(), answered.span_id.hex()) == (SPAN.span_id, ANSWER_ID)
    assert (answered.start_time_unix_nano, answered.end_time_unix_nano) == (HANDLED.end_ns, HANDLED.second_end_ns)


@pytest.mark.parametrize("number", [None, 0, 127, 16_383, 16_384, 2_097_151, 2_097_152, 2**35 - 1, 2**35, 2**62, -1])
@pytest.mark.parametrize("text", ["", "wf", "%b", "日本" * 100, "half \ud800", "k" * 127, "k" * 20_000])
def test_a_plain_span_arrives_as_the_same_span_does_otherwise(text: str, number: int | None) -> None:
    row = HANDLED._replace(texts=("step", text, text), number=number)

    # A link makes a span one of the others.
    links = (("3" * 32, "4" * 16),)
    others = encoded(*(span._replace(links=links) for span in row.spans()))
    for span in others:
        assert len(span.links) == 1
        span.ClearField("links")
    plain = encoded(row)
    # The order of a message's fields says nothing.
    assert [span.SerializeToString(deterministic=True) for span in plain] == [
        span.SerializeToString(deterministic=True) for span in others
    ]


@pytest.mark.parametrize("length", [0, 1, 90, 115, 116, 117, 118, 119, 120, 121, 122, 123, 127, 128, 129, 16_384])
def test_a_text_of_any_length_arrives(length: int) -> None:
    _, span = sent(SPAN._replace(values=("k" * length, -1, None)))

    assert attributes(span) == {"messaging.system": "kafka", "key": "k" * length, "offset": -1}


def test_an_error_and_what_a_handler_has_added_arrive() -> None:
    notes = SpanNotes(
        {"share": 0.5, "known": True, "counts": [1, 2]},
        [SpanEvent("exception", 7, {"exception.type": "ValueError"})],
        [("1" * 32, "2" * 16)],
        "renamed",
    )
    _, span = sent(SPAN._replace(error=("ValueError", "no such bank"), links=(("3" * 32, "4" * 16),), notes=notes))

    found = attributes(span)
    assert (found["share"], found["known"], found["counts"]) == (0.5, True, [1, 2])
    assert found["error.type"] == "ValueError"
    assert (span.status.code, span.status.message) == (Status.STATUS_CODE_ERROR, "no such bank")
    assert span.name == "renamed"
    assert [(link.trace_id.hex(), link.span_id.hex()) for link in span.links] == [
        ("3" * 32, "4" * 16),
        ("1" * 32, "2" * 16),
    ]
    (event,) = span.events
    assert (event.name, event.time_unix_nano, event.attributes[0].value.string_value) == ("exception", 7, "ValueError")


def test_opentelemetrys_variables_decide_where_no_setting_does() -> None:
    with receiving() as receiver:
        environ = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc",
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_SERVICE_NAME": "billing",
        }
        sender = OtlpSender("a-service", None, environ)
        sender.export([sender.encoded([SPAN])[0]])

        ((service, _),) = receiver.spans()
        assert service == "billing"
        assert receiver.headers[0]["Authorization"] == "Bearer abc"


def test_spans_wait_for_a_collector_that_is_overloaded_and_are_dropped_where_it_refuses() -> None:
    with receiving() as receiver:
        tracer = Tracer(OtlpSender("a-service", receiver.url, {}), interval_s=3_600)
        receiver.statuses = [503, 200, 400]
        for _ in range(2):
            tracer.record(SPAN)
            tracer.flush()
        assert len(receiver.spans()) == 2

        tracer.record(SPAN)
        tracer.flush()
        tracer.close()
        assert (len(receiver.spans()), tracer.dropped) == (2, 1)


class Secretive:
    """A value that a handler has added, and that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no comment")


def test_a_span_that_cannot_be_encoded_is_dropped_alone() -> None:
    odd = SPAN._replace(notes=SpanNotes({"odd": Secretive()}, [], []))
    with receiving() as receiver:
        tracer = Tracer(OtlpSender("a-service", receiver.url, {}), interval_s=3_600)
        tracer.record_all([SPAN, odd, HANDLED])
        tracer.flush()
        tracer.close()
        assert (len(receiver.spans()), tracer.dropped) == (3, 1)


class Away:
    """A collector that is away."""

    def export(self, spans: object) -> None:
        raise SpansNotSent("nobody listens", may_try_again=True)

    def close(self) -> None:
        """Do nothing."""


def test_what_waits_for_a_collector_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    tracer = Tracer(Away(), interval_s=3_600)
    with caplog.at_level(logging.WARNING):
        tracer.record_all([SPAN] * MAX_WAITING)
        tracer.record_all([SPAN, SPAN])
        tracer.record(SPAN)
        tracer.flush()
    tracer.close()

    assert tracer.dropped == 3
    assert "nobody listens" in caplog.text
