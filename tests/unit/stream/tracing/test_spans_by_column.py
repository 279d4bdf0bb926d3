"""Spans that are recorded and encoded by column are those that come one by one, wherever they go."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as OtlpSpan
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

from afl.core.trace_context import TRACE_PARENT, derived_trace_id, ids_of_usual
from afl_stream.tracing.evaluators import EvaluatorTracing
from afl_stream.tracing.otel import ProviderSpans
from afl_stream.tracing.otlp import SpanEncoder
from afl_stream.tracing.spans import PlainSpan, PlainSpans, Row, SpanKind, SpanTemplate
from afl_stream.tracing.tracer import SpanExporter, Tracer
from afl_stream.transport import Headers, Record

TEMPLATE = SpanTemplate(
    "process afl.control", SpanKind.CONSUMER, {"messaging.system": "kafka"}, ("key", "outcome", "offset", "no")
)
START_NS, END_NS = 1_700_000_000_000_000_001, 1_700_000_000_000_000_005
KEYS = ("wf", "order-17", "", "日本語", "k" * 200, "order-18")


def columns(numbers: Sequence[int] | None) -> PlainSpans:
    count = len(KEYS)
    return PlainSpans(
        TEMPLATE,
        [b"%016d" % number for number in range(count)],
        [b"%08d" % number for number in range(count)],
        [b"parent%02d" % number for number in range(count)],
        START_NS,
        END_NS,
        ([key.encode() for key in KEYS], [b"applied"] * count),
        numbers,
    )


def encoded(*rows: Row) -> list[bytes]:
    """Return spans as OpenTelemetry's classes write what was encoded: the order of a message's fields says nothing."""
    encoder = SpanEncoder({}, "a-scope", "1")
    content, count = encoder.encoded(rows)
    request = ExportTraceServiceRequest.FromString(encoder.request([content]))
    spans: list[OtlpSpan] = list(request.resource_spans[0].scope_spans[0].spans)
    assert len(spans) == count
    for span in spans:
        span.ClearField("links")
    return sorted(span.SerializeToString(deterministic=True) for span in spans)


@pytest.mark.parametrize("numbers", [None, (0, 1, 127, 128, 2**21 - 1, 2**21), (-1, 2**35 - 1, 2**35, 2**62, 5, 6)])
def test_spans_by_column_arrive_as_the_same_spans_do_otherwise(numbers: Sequence[int] | None) -> None:
    by_column = columns(numbers)
    # A link makes a span one of the others.
    others = [span._replace(links=(("3" * 32, "4" * 16),)) for span in by_column.spans()]

    assert encoded(by_column) == encoded(*others)


def test_plain_spans_of_several_places_and_lengths_arrive_as_they_do_alone() -> None:
    rows = [
        PlainSpan(SpanTemplate(name, SpanKind.CLIENT, {}, ("key", "number")), f"{number:064x}", 1, 2, (key,), given)
        for name in ("one", "other")
        for number, (key, given) in enumerate(zip(KEYS, (1, None, 3, None, 2**40, -5), strict=True), 1)
    ]
    together = rows + [row._replace(place=rows[0].place) for row in rows]

    assert encoded(*together) == sorted(span for row in together for span in encoded(row))


# --- an evaluator's batches -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    id: str
    trace_context: str


class Kept:
    """An exporter that keeps spans."""

    def __init__(self) -> None:
        self.spans: list[Any] = []

    def export(self, spans: Sequence[Any]) -> None:
        self.spans += spans

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def evaluator(exporter: SpanExporter) -> Iterator[EvaluatorTracing]:
    tracer = Tracer(exporter, interval_s=3_600)
    try:
        yield EvaluatorTracing(tracer, "evaluators", "afl.commands")
    finally:
        tracer.close()


def headers(parent: bytes, *more: tuple[str, bytes | None]) -> Headers:
    return (("content-type", b"avro"), ("afl", b"{}"), (TRACE_PARENT, parent), *more)


def parent_of(workflow_id: str, span_id: str = "00f067aa0ba902b7", flags: str = "01") -> bytes:
    return f"00-{derived_trace_id(workflow_id)}-{span_id}-{flags}".encode()


RUNS: Mapping[str, Run] = {key: Run(key, parent_of(key, "1" * 16).decode()) for key in KEYS if key}
USUAL = [(key.encode(), parent_of(key)) for key in RUNS]
ODD = [
    (b"wf", parent_of("wf", flags="00")),
    (b"wf", parent_of("wf", "0" * 16)),
    (b"wf", parent_of("wf", "not-an-hex-value")),
    (b"wf", parent_of("wf")[:-1]),
    (b"wf", parent_of("wf") + b"-more"),
    (b"wf", parent_of("another")),
    (b"no run of ours", parent_of("another")),
    (b"half \xff", parent_of("wf")),
]


def worked_on(given: Sequence[tuple[bytes, bytes]], *more: tuple[str, bytes | None], exporter: SpanExporter) -> None:
    records = [
        (Record("afl.control", number % 2, number, key, b"", headers(parent, *more)), "applied")
        for number, (key, parent) in enumerate(given)
    ]
    with evaluator(exporter) as tracing:
        tracing.committed(records, START_NS, RUNS, lambda _: None, ())


def without_own_ids(spans: Sequence[Any]) -> list[Any]:
    """Return spans but for the ids that are drawn and the time of their end; of the batch's span the trace is, too."""
    drawn = {span.span_id for span in spans}
    return sorted(
        (
            span.template.name, str(span.template.attributes.get("messaging.destination.partition.id")),
            span.trace_id if span.parent_id else "", span.parent_id, span.start_ns, span.values, span.error,
            [(trace_id, "" if span_id in drawn else span_id) for trace_id, span_id in span.links],
        )
        for span in spans
    )  # fmt: skip


@pytest.mark.parametrize("given", [USUAL, ODD, USUAL + ODD], ids=["usual", "odd", "mixed"])
def test_a_batch_makes_the_spans_that_records_of_any_form_make(given: Sequence[tuple[bytes, bytes]]) -> None:
    by_column, one_by_one = Kept(), Kept()
    worked_on(given, exporter=by_column)
    # Another header makes a record one of the others.
    worked_on(given, ("another", b"header"), exporter=one_by_one)

    assert len(by_column.spans) > 1
    assert without_own_ids(by_column.spans) == without_own_ids(one_by_one.spans)
    assert len({span.span_id for span in by_column.spans}) == len(by_column.spans)


def test_what_is_sent_together_makes_the_spans_that_it_makes_alone() -> None:
    outbox = [("lane", "afl.events.a.B", key + b":1", b"", headers(parent)) for key, parent in USUAL + ODD]
    together, alone = Kept(), Kept()
    with evaluator(together) as tracing:
        tracing.sent(outbox, START_NS)
    with evaluator(alone) as tracing:
        for record in outbox:
            tracing.sent([record], START_NS)

    assert len(together.spans) == len(USUAL) + 3
    assert without_own_ids(together.spans) == without_own_ids(alone.spans)
    first = together.spans[0]
    assert (first.values, first.span_id) == (("wf:1", "wf", None), "00f067aa0ba902b7")
    assert first.parent_id == Tracer(Kept()).run_context("wf").span_id


def test_ids_are_those_that_contexts_name() -> None:
    trace_ids, span_ids = ids_of_usual([parent for _, parent in USUAL])

    assert [trace_id.hex() for trace_id in trace_ids] == [derived_trace_id(key) for key in RUNS]
    assert {span_id.hex() for span_id in span_ids} == {"00f067aa0ba902b7"}


# --- tracer providers -------------------------------------------------------------------------------------------------


def provided(sampler: Sampler, limits: SpanLimits | None = None) -> Sequence[ReadableSpan]:
    kept = InMemorySpanExporter()
    provider = TracerProvider(sampler, span_limits=limits, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    worked_on(USUAL, exporter=ProviderSpans(provider))
    found: Sequence[ReadableSpan] = kept.get_finished_spans()
    provider.shutdown()
    return found


def test_a_provider_gets_the_spans_that_a_collector_gets() -> None:
    kept = Kept()
    worked_on(USUAL, exporter=kept)
    found = provided(ALWAYS_ON)

    assert sorted(
        (span.name, f"{span.parent.span_id:016x}" if span.parent else "", span.start_time, len(span.links))
        for span in found
    ) == sorted((span.template.name, span.parent_id, span.start_ns, len(span.links)) for span in kept.spans)
    keys = [dict(span.attributes or {}).get("messaging.kafka.message.key") for span in found]
    assert [key for key in keys if key is not None] == [*RUNS][::2] + [*RUNS][1::2]


def test_a_providers_sampler_and_limits_hold() -> None:
    assert not provided(ALWAYS_OFF)
    for span in provided(ALWAYS_ON, SpanLimits(max_span_attributes=3, max_span_attribute_length=4)):
        assert len(span.attributes or {}) == 3
        assert all(len(value) <= 4 for value in (span.attributes or {}).values() if isinstance(value, str))


class Foreign(trace.TracerProvider):
    """A provider that is not the SDK's, and notes what it is asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        return ForeignTracer(self.names)


class ForeignTracer(trace.NoOpTracer):
    def __init__(self, names: list[str]) -> None:
        self._names = names

    def start_span(self, name: str, *_: Any, **__: Any) -> trace.Span:
        self._names.append(name)
        return trace.INVALID_SPAN


def test_a_provider_of_another_kind_is_asked_for_each_span() -> None:
    foreign = Foreign()
    worked_on(USUAL, exporter=ProviderSpans(foreign))

    assert sorted(foreign.names) == ["commit afl.control", *["process afl.control"] * len(USUAL)]
