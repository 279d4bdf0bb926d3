"""The spans of a client: what it sends, in the trace of the work that sends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from afl.core.clock import epoch_ns
from afl.core.text.exception_text import exception_class, exception_text
from afl.core.trace_context import TraceContext, derived_trace_id, is_sampled
from afl_stream.tracing.attributes import sending
from afl_stream.tracing.current import current_context
from afl_stream.tracing.spans import SpanTemplate, new_span
from afl_stream.tracing.tracer import Tracer
from afl_stream.transport import DeliveryCallback, Headers, TopicPartition


class ClientTracing:
    """Makes a span of each record that a client sends.

    It is below the current span of OpenTelemetry, or of a traced handler. Without one, a record that starts a workflow
    begins the trace that the run would have by itself, so that the same start again is in the same trace.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._templates: dict[str, SpanTemplate] = {}
        self._current: Callable[[], TraceContext | None] = _current_parent()

    def new_context(self, workflow_id: str) -> tuple[TraceContext, str]:
        """Return the context of a record about this workflow, and the id of the span above it."""
        tracer, above = self._tracer, self._current()
        if above is not None:
            return above._replace(span_id=tracer.new_span_id()), above.span_id
        trace_id = derived_trace_id(workflow_id)
        flags = "01" if is_sampled(trace_id, tracer.ratio) else "00"
        return TraceContext(trace_id, tracer.new_span_id(), flags), ""

    @contextmanager
    def sending(self, topic: str, key: str, message_id: str) -> Iterator[Headers]:
        """Record the sending of one record, from encoding to acknowledgement; yield the headers that it carries."""
        context, parent = self.new_context(key)
        began_ns = epoch_ns()
        error: BaseException | None = None
        try:
            yield context.headers
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.sent(context, parent, topic, key, message_id, began_ns, error)

    def when_delivered(
        self,
        context: TraceContext,
        parent: str,
        topic: str,
        key: str,
        message_id: str,
        on_delivery: DeliveryCallback,
    ) -> DeliveryCallback:
        """Return a callback that records that the record was sent, which begins now, and then calls the given one."""
        began_ns = epoch_ns()

        def delivered(error: Exception | None, partition: TopicPartition, offset: int) -> None:
            self.sent(context, parent, topic, key, message_id, began_ns, error)
            on_delivery(error, partition, offset)

        return delivered

    def sent(
        self,
        context: TraceContext,
        parent: str,
        topic: str,
        key: str,
        message_id: str,
        began_ns: int,
        error: BaseException | None,
    ) -> None:
        """Record that a record was sent, or was not."""
        if not context.is_sampled:
            return
        template = self._templates.get(topic)
        if template is None:
            template = self._templates[topic] = sending(topic)
        why = None if error is None else (exception_class(error), exception_text(error))
        values = (key, key, message_id)
        self._tracer.record(
            new_span((template, context.trace_id, context.span_id, parent, began_ns, epoch_ns(), values, why, (), None))
        )


def _current_parent() -> Callable[[], TraceContext | None]:
    """Return what finds the current span: OpenTelemetry's where that is installed, or else a traced handler's."""
    try:
        from afl_stream.tracing.otel import current_parent
    except ModuleNotFoundError:
        return current_context
    return lambda: current_parent() or current_context()
