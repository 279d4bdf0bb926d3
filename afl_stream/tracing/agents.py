"""The spans of an agent: each run of a handler, and the answer that it sends."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from random import getrandbits
from typing import Any, Final, Protocol, TypeVar

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
from afl_stream.tracing.spans import MAX_LINKS, Link, SpanEvent, SpanNotes, SpanPair, SpanTemplate, new_span, plain_span
from afl_stream.tracing.tracer import Tracer
from afl_stream.transport import Headers, Record

_KEYS: Final = (KEY, MESSAGE_ID, CONVERSATION_ID, OFFSET, "afl.attempt", TRIES)
_NO_SPAN: Final = "0" * 16
#: In `sys.modules` once a handler's code uses it.
_OPENTELEMETRY: Final = "opentelemetry.trace"
#: Places whose spans are remembered: partitions of topics.
_MOST_TEMPLATES: Final = 10_000
#: Records of a read that are looked at for links: a few traces may be sampled of many.
_MOST_LOOKED_AT: Final = 128


class HandlerRun:
    """One run of a handler as a span. `drawn`: its id and that of its answer's span; empty: nothing is recorded."""

    __slots__ = ("above", "began_ns", "drawn", "error", "shown", "state", "traceback")

    def __init__(self, above: str, drawn: str, state: str) -> None:
        #: The `traceparent` that the run is below; its span's id is zero where it is below none.
        self.above = above
        self.drawn = drawn
        self.state = state
        self.began_ns = epoch_ns()
        self.error: tuple[str, str] | None = None
        self.traceback: str | None = None
        #: What OpenTelemetry's API shows as the current span while the handler runs.
        self.shown: Any = None

    @property
    def context(self) -> TraceContext:
        """The context of the handler's own work."""
        above = self.above
        return TraceContext(above[3:35], self.drawn[:16] or above[36:52], above[53:], self.state)

    @property
    def headers(self) -> Headers:
        """The trace context of what is sent for the record."""
        above = self.above
        parent = (TRACE_PARENT, f"{above[:36]}{self.drawn[16:] or above[36:52]}{above[52:]}".encode())
        return (parent, (TRACE_STATE, self.state.encode())) if self.state else (parent,)


class TracedWork(Protocol):
    """A record whose handler runs."""

    trace: HandlerRun | None

    @property
    def record(self) -> Record: ...


_Work = TypeVar("_Work", bound=TracedWork)


class AgentTracing:
    """Makes the spans of one agent. Threads may share it.

    A run of a handler is a span below the one that the event's record names, and its answer one below that. An event
    without a context gets that of its run, as it would be where no other work had started it. Nothing is recorded for
    a trace that is not sampled; its context is passed on all the same.
    """

    def __init__(self, tracer: Tracer, control_topic: str) -> None:
        self._tracer = tracer
        self._record = tracer.record
        self._answer = sending(control_topic)
        self._pairs: dict[tuple[str, int, str, str], SpanPair] = {}
        self._received: dict[str, SpanTemplate] = {}
        self._settled: dict[str, SpanTemplate] = {}
        #: Makes a span of OpenTelemetry's API. It is loaded when a handler's code has loaded that.
        self._show: Callable[[TraceContext], Any] | None = None

    def begin(self, record: Record, workflow_id: str) -> HandlerRun:
        """Return a run of the handler for this record, which begins now."""
        headers, state = record.headers, ""
        if len(headers) == 3 and headers[2][0] == TRACE_PARENT and is_usual(headers[2][1] or b""):
            above = (headers[2][1] or b"").decode()
            if above[53:] not in SAMPLED:
                return HandlerRun(above, "", state)
        else:
            named = context_of(headers)
            if named is None:
                named = self._tracer.run_context(workflow_id)
                if named.is_sampled:
                    named = named._replace(span_id=_NO_SPAN)
            above, state = named.traceparent, named.state
            if not named.is_sampled:
                return HandlerRun(above, "", state)
        return HandlerRun(above, getrandbits(128).to_bytes(16, "little").hex(), state)

    def traced(self, run: Callable[[_Work, Any], object]) -> Callable[[_Work, Any], object]:
        """Return what runs a handler, a plain function, for a record and its event, in its span, which has begun."""
        enter, leave, modules = CURRENT.set, CURRENT.reset, sys.modules

        def traced(work: _Work, event: Any) -> object:
            span = work.trace
            token = enter(span)
            if span is None or _OPENTELEMETRY not in modules:
                try:
                    return run(work, event)
                finally:
                    leave(token)
            end = self._shown(span)
            try:
                return run(work, event)
            finally:
                end()
                leave(token)

        return traced

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

            def call(*arguments: object) -> object:
                run.began_ns = epoch_ns()
                token = CURRENT.set(run)
                end = self._shown(run) if _OPENTELEMETRY in sys.modules else None
                try:
                    return handler(*arguments)
                finally:
                    if end is not None:
                        end()
                    CURRENT.reset(token)

            return call

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
        drawn = run.drawn
        if not drawn:
            return
        topic, partition, offset, _, _, _, _ = record
        place = (topic, partition, group, event.event_type)
        pair = self._pairs.get(place) or self._pair(*place)
        above, attempt, error, to = run.above, event.attempt, run.error, event.workflow_id
        notes = None if run.shown is None else run.shown.notes()
        texts = (event.step_id, event.id, to)
        if has_answer and error is None and notes is None and attempt == tries == 1 and above[36:52] != _NO_SPAN:
            self._record(plain_span((pair, above[3:52] + drawn, run.began_ns, ended_ns, texts, offset, epoch_ns())))
            return
        trace_id, parent_id, span_id, answer_id = above[3:35], above[36:52], drawn[:16], drawn[16:]
        if parent_id == _NO_SPAN:
            parent_id = ""
        values = (*texts, offset, attempt if attempt > 1 else None, tries if tries > 1 else None)
        if run.traceback is not None and error is not None:
            notes = _with_exception(notes, error, run.traceback, ended_ns)
        span = new_span((pair.first, trace_id, span_id, parent_id, run.began_ns, ended_ns, values, error, (), notes))
        if not has_answer:
            self._tracer.record(span)
            return
        answered = (self._answer, trace_id, answer_id, span_id, ended_ns, epoch_ns(), (to, to, None), None, (), None)
        self._tracer.record_all((span, new_span(answered)))

    def _pair(self, topic: str, partition: int, group: str, facet: str) -> SpanPair:
        if len(self._pairs) >= _MOST_TEMPLATES:
            self._pairs.clear()
        first = processing(topic, partition, group, _KEYS, facet)
        # The answer's key and conversation are the workflow's id.
        to = _KEYS.index(CONVERSATION_ID)
        pair = self._pairs[(topic, partition, group, facet)] = SpanPair(first, self._answer, (to, to))
        return pair

    def received(self, records: Sequence[Record], group: str, began_ns: int) -> None:
        """Record that records were read: a trace of its own for each topic, with links to those who sent them."""
        ended_ns, by_topic = epoch_ns(), dict[str, list[Record]]()
        for record in records:
            by_topic.setdefault(record.topic, []).append(record)
        for topic, of_topic in by_topic.items():
            template = self._received.get(topic)
            if template is None:
                template = self._received[topic] = batch("poll", "receive", topic, group)
            found = (link for record in of_topic[:_MOST_LOOKED_AT] if (link := link_to(record.headers)) is not None)
            links = tuple(islice(found, MAX_LINKS))
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
        ids = (new_id() + new_id(), new_id(), "")
        self._tracer.record(new_span((template, *ids, began_ns, ended_ns, values, error, links, None)))


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
