"""The spans of an agent: each run of a handler, and the answer that it sends."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from random import getrandbits
from typing import Any, Final

from afl.core.clock import epoch_ns
from afl.core.trace_context import SAMPLED, TRACE_PARENT, TRACE_STATE, TraceContext, context_of, is_usual, link_to
from afl_stream.tracing.attributes import (
    CONVERSATION_ID,
    KEY,
    MESSAGE_ID,
    OFFSET,
    TRIES,
    batch,
    processing,
    sending,
)
from afl_stream.tracing.current import CURRENT
from afl_stream.tracing.spans import MAX_LINKS, Link, SpanEvent, SpanNotes, SpanTemplate, new_span
from afl_stream.tracing.tracer import Tracer
from afl_stream.transport import Headers, Record

_KEYS: Final = (KEY, OFFSET, MESSAGE_ID, CONVERSATION_ID, "afl.attempt", TRIES)
#: In `sys.modules` once a handler's code uses it.
_OPENTELEMETRY: Final = "opentelemetry.trace"
#: Places whose spans are remembered: partitions of topics.
_MOST_TEMPLATES: Final = 10_000


class HandlerRun:
    """One run of a handler as a span. `answer_id`: the span of its answer; empty: nothing is recorded."""

    __slots__ = (
        "answer_id", "began_ns", "error", "flags", "parent_id", "shown", "span_id", "state", "trace_id", "traceback",
    )  # fmt: skip

    def __init__(self, trace_id: str, span_id: str, parent_id: str, answer_id: str, flags: str, state: str) -> None:
        self.trace_id = trace_id
        self.span_id = span_id
        self.parent_id = parent_id
        self.answer_id = answer_id
        self.flags = flags
        self.state = state
        self.began_ns = 0
        self.error: tuple[str, str] | None = None
        self.traceback: str | None = None
        #: What OpenTelemetry's API shows as the current span while the handler runs.
        self.shown: Any = None

    @property
    def context(self) -> TraceContext:
        """The context of the handler's own work."""
        return TraceContext(self.trace_id, self.span_id, self.flags, self.state)

    @property
    def headers(self) -> Headers:
        """The trace context of what is sent for the record."""
        parent = (TRACE_PARENT, f"00-{self.trace_id}-{self.answer_id or self.span_id}-{self.flags}".encode())
        return (parent, (TRACE_STATE, self.state.encode())) if self.state else (parent,)


class AgentTracing:
    """Makes the spans of one agent. Threads may share it.

    A run of a handler is a span below the one that the event's record names, and its answer one below that. An event
    without a context gets that of its run, as it would be where no other work had started it. Nothing is recorded for
    a trace that is not sampled; its context is passed on all the same.
    """

    def __init__(self, tracer: Tracer, control_topic: str) -> None:
        self._tracer = tracer
        self._answer = sending(control_topic)
        self._templates: dict[tuple[str, int, str, str], SpanTemplate] = {}
        self._received: dict[str, SpanTemplate] = {}
        self._settled: dict[str, SpanTemplate] = {}
        #: Makes a span of OpenTelemetry's API. It is loaded when a handler's code has loaded that.
        self._show: Callable[[TraceContext], Any] | None = None

    def begin(self, record: Record, workflow_id: str) -> HandlerRun:
        """Return a run of the handler for this record, which begins now."""
        headers, state = record.headers, ""
        if len(headers) == 3 and headers[2][0] == TRACE_PARENT and is_usual(headers[2][1] or b""):
            text = (headers[2][1] or b"").decode()
            trace_id, parent_id, flags = text[3:35], text[36:52], text[53:]
        else:
            above = context_of(headers)
            if above is None:
                trace_id, span_id, flags, state = self._tracer.run_context(workflow_id)
                parent_id = ""
            else:
                trace_id, parent_id, flags, state = above
        if flags not in SAMPLED:
            return HandlerRun(trace_id, parent_id or span_id, "", "", flags, state)
        drawn = f"{getrandbits(128):032x}"
        return HandlerRun(trace_id, drawn[:16], parent_id, drawn[16:], flags, state)

    def call(self, run: HandlerRun, handler: Callable[..., Any], *arguments: object) -> Any:
        """Call a handler in its span."""
        run.began_ns = epoch_ns()
        token = CURRENT.set(run)
        end = self._shown(run) if _OPENTELEMETRY in sys.modules else None
        try:
            return handler(*arguments)
        finally:
            if end is not None:
                end()
            CURRENT.reset(token)

    def _shown(self, run: HandlerRun) -> Callable[[], None]:
        """Make the run OpenTelemetry's current span, and return the function that ends that."""
        if self._show is None:
            from afl_stream.tracing.otel import HandlerSpan

            self._show = HandlerSpan
        run.shown = self._show(run.context)
        end: Callable[[], None] = run.shown.activate()
        return end

    def around(self, run: HandlerRun, handler: Callable[..., Any], *, is_async: bool) -> Callable[..., Any]:
        """Return what calls a handler in its span."""
        if not is_async:
            return lambda *arguments: self.call(run, handler, *arguments)

        async def called(*arguments: object) -> object:
            run.began_ns = epoch_ns()
            token = CURRENT.set(run)
            end = self._shown(run) if _OPENTELEMETRY in sys.modules else None
            try:
                awaited: Awaitable[object] = handler(*arguments)
                return await awaited
            finally:
                if end is not None:
                    end()
                CURRENT.reset(token)

        return called

    def ended(
        self, run: HandlerRun, record: Record, event: Any, group: str, ended_ns: int, tries: int, *, has_answer: bool
    ) -> None:
        """Record a run that has ended, and its answer if it has sent one."""
        trace_id, span_id, answer_id = run.trace_id, run.span_id, run.answer_id
        if not answer_id:
            return
        place = (record.topic, record.partition, group, event.event_type)
        template = self._templates.get(place)
        if template is None:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            template = self._templates[place] = processing(
                record.topic, record.partition, group, _KEYS, event.event_type
            )
        attempt = event.attempt
        values = (
            event.step_id,
            record.offset,
            event.id,
            event.workflow_id,
            attempt if attempt > 1 else None,
            tries if tries > 1 else None,
        )
        error = run.error
        notes = None if run.shown is None else run.shown.notes()
        if run.traceback is not None and error is not None:
            notes = _with_exception(notes, error, run.traceback, ended_ns)
        span = new_span((template, trace_id, span_id, run.parent_id, run.began_ns, ended_ns, values, error, (), notes))
        if not has_answer:
            self._tracer.record(span)
            return
        to = event.workflow_id
        answered = (self._answer, trace_id, answer_id, span_id, ended_ns, epoch_ns(), (to, None, to), None, (), None)
        self._tracer.record_all((span, new_span(answered)))

    def received(self, records: Sequence[Record], group: str, began_ns: int) -> None:
        """Record that records were read: a trace of its own for each topic, with links to those who sent them."""
        ended_ns, by_topic = epoch_ns(), dict[str, list[Record]]()
        for record in records:
            by_topic.setdefault(record.topic, []).append(record)
        for topic, of_topic in by_topic.items():
            template = self._received.get(topic)
            if template is None:
                template = self._received[topic] = batch("poll", "receive", topic, group)
            links = tuple([link for record in of_topic[:MAX_LINKS] if (link := link_to(record.headers)) is not None])
            if links:
                self._alone(template, began_ns, ended_ns, (len(of_topic),), None, links)

    def committed(self, topic: str, group: str, began_ns: int, *, is_committed: bool) -> None:
        """Record that offsets of a topic were committed, or were not: a trace of its own."""
        template = self._settled.get(topic)
        if template is None:
            template = self._settled[topic] = batch("commit", "settle", topic, group, ())
        error = None if is_committed else ("CommitFailed", "the offsets are committed later")
        self._alone(template, began_ns, epoch_ns(), (), error, ())

    def _alone(
        self,
        template: SpanTemplate,
        began_ns: int,
        ended_ns: int,
        values: tuple[int, ...],
        error: tuple[str, str] | None,
        links: tuple[Link, ...],
    ) -> None:
        new_id = self._tracer.new_span_id
        self._tracer.record(
            new_span((template, new_id() + new_id(), new_id(), "", began_ns, ended_ns, values, error, links, None))
        )


def _with_exception(notes: SpanNotes | None, error: tuple[str, str], traceback: str, at_ns: int) -> SpanNotes:
    kind, message = error
    raised = SpanEvent(
        "exception",
        at_ns,
        {"exception.type": kind, "exception.message": message, "exception.stacktrace": traceback},
    )
    if notes is None:
        return SpanNotes({}, [raised], [])
    return notes._replace(events=[*notes.events, raised])
