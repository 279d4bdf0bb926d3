"""The port for spans: what a request, its nodes and their commands tell of their work while they do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Final, Protocol, TypeAlias

from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.events import ConsumeFromTopicEvent
from afl_stream.pubsub.model.nodes import Node
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues

SpanAttributes: TypeAlias = Mapping[str, str | int | float | bool | Sequence[str]]


class Span(Protocol):
    """One piece of work.

    `with` makes it the current span of this task, and of threads and tasks that it starts, until it ends there; an
    exception that leaves the block is the span's failure. Where a block cannot stand, in a generator that a caller
    reads, `end` ends it.
    """

    @property
    def is_recording(self) -> bool:
        """Whether anyone will see it. Attributes that are costly to make are made only then."""

    @property
    def records_payloads(self) -> bool:
        """Whether it may have the values that go in and come out, messages and arguments included."""

    @property
    def traceparent(self) -> str:
        """The span as a W3C `traceparent`, for work in another process; empty where nothing is recorded."""

    def child(self, name: str, kind: OpenInferenceSpanKindValues, attributes: SpanAttributes, /) -> Span:
        """Start the span of a part of this work."""

    def set(self, attributes: SpanAttributes, /) -> None:
        """Set attributes."""

    def input(self, value: object, /) -> None:
        """Tell what the work is done with: a value of JSON. It is recorded where payloads are."""

    def output(self, value: object, /) -> None:
        """Tell one thing that the work gave: a value of JSON. It is recorded where payloads are."""

    def fail(self, error: BaseException, /) -> None:
        """Tell that the work failed, or was cancelled."""

    def end(self) -> None:
        """End the span; the second time does nothing."""

    def __enter__(self) -> Span: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...


class Spans(Protocol):
    """What starts the spans of requests."""

    def request(self, workflow: str, type: str, kind: OpenInferenceSpanKindValues, context: InvokeContext, /) -> Span:
        """Start the span of a request: below the caller's, or the one that the context carries as `traceparent`."""

    def carried(self, context: InvokeContext, /) -> InvokeContext:
        """Return the context with the span that is current here, for a request that another process runs."""


class _NoSpan:
    """The span of work that nobody traces."""

    is_recording: Final = False
    records_payloads: Final = False
    traceparent: Final = ""

    def child(self, *_started: object) -> Span:
        return self

    def set(self, attributes: SpanAttributes, /) -> None: ...

    def input(self, value: object, /) -> None: ...

    def output(self, value: object, /) -> None: ...

    def fail(self, error: BaseException, /) -> None: ...

    def end(self) -> None: ...

    def __enter__(self) -> Span:
        return self

    def __exit__(self, *_raised: object) -> None: ...


class _NoSpans:
    """The spans of a workflow that nobody traces."""

    def request(self, *_started: object) -> Span:
        return NO_SPAN

    def carried(self, context: InvokeContext, /) -> InvokeContext:
        return context


NO_SPAN: Final[Span] = _NoSpan()
NO_SPANS: Final[Spans] = _NoSpans()

#: The span of the work that this task does. What traces sets it on entering a span.
current: Final[ContextVar[Span]] = ContextVar("afl_stream.pubsub.span", default=NO_SPAN)


def current_span() -> Span:
    """Return the span of the work that this task or thread does, for commands that tell of theirs."""
    return current.get()


def node_span(request: Span, node: Node, events: Sequence[ConsumeFromTopicEvent]) -> Span:
    """Start the span of one run of a node with the events that it has taken."""
    if request is NO_SPAN:
        return NO_SPAN
    span = request.child(
        node.name,
        node.oi_span_type,
        {
            "graph.node.id": node.name,
            "graph.node.name": node.name,
            "afl.pubsub.node.type": node.type,
            "afl.pubsub.topics": list(dict.fromkeys(event.name for event in events)),
            "afl.pubsub.events": len(events),
        },
    )
    span.input(events[0].data if len(events) == 1 else [event.data for event in events])
    return span
