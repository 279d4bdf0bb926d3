"""Spans of requests, nodes and commands, with attributes by the conventions of OpenInference."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import Token
from dataclasses import replace
from types import TracebackType
from typing import Final

from afl.core.errors import AFLError
from afl.core.text.exception_text import exception_class, exception_text
from afl_stream.pubsub.errors import NodeFailed
from afl_stream.pubsub.model.context import InvokeContext
from afl_stream.pubsub.model.span_kinds import OpenInferenceSpanKindValues
from afl_stream.pubsub.model.spans import Span, SpanAttributes, current
from afl_stream.pubsub.tracing.payloads import cut, payload
from afl_stream.pubsub.tracing.recorder import RecordedSpan, SpanRecorder

#: Characters that an attribute keeps of a value.
MAX_ATTRIBUTE_CHARS: Final = 8_192
#: Where a context carries the span that a request is below, in W3C's form.
TRACEPARENT: Final = "traceparent"


class Tracing:
    """Traces the requests of workflows: give it to the workflow's builder by `spans`.

    A request is a span, below the one that was current where it was invoked, or below the one whose `traceparent` its
    context has among its attributes. Below it is a span for each run of a node, below that one for each request to a
    model and for each call of a function. All of them carry `session.id` and `user.id` of the context.

    `record_payloads`: whether spans have the values that went in and came out, messages and arguments included, and
    what programs' own errors say. They may be personal, so they are left out unless this is set.
    `max_attribute_chars` bounds each of them.
    """

    def __init__(
        self,
        recorder: SpanRecorder,
        *,
        record_payloads: bool = False,
        max_attribute_chars: int = MAX_ATTRIBUTE_CHARS,
    ) -> None:
        self.recorder = recorder
        self.record_payloads = record_payloads
        self.max_attribute_chars = max_attribute_chars

    def request(self, workflow: str, type: str, kind: OpenInferenceSpanKindValues, context: InvokeContext) -> Span:
        """Start the span of a request."""
        common = {"afl.pubsub.request_id": context.assistant_request_id}
        if context.conversation_id:
            common["session.id"] = context.conversation_id
        if context.user_id:
            common["user.id"] = context.user_id
        attributes = {"afl.pubsub.workflow": workflow, "afl.pubsub.workflow.type": type}
        if context.invoke_id:
            attributes["afl.pubsub.invoke_id"] = context.invoke_id
        if kind is OpenInferenceSpanKindValues.AGENT:
            attributes["agent.name"] = workflow
        carried = context.attributes.get(TRACEPARENT)
        return self.started(workflow, kind, attributes, common, traceparent=carried if isinstance(carried, str) else "")

    def carried(self, context: InvokeContext) -> InvokeContext:
        """Return the context with the span that is current here, unless it carries one."""
        if context.attributes.get(TRACEPARENT):
            return context
        traceparent = self.recorder.current_traceparent()
        if not traceparent:
            return context
        return replace(context, attributes={**context.attributes, TRACEPARENT: traceparent})

    def started(
        self,
        name: str,
        kind: OpenInferenceSpanKindValues,
        attributes: SpanAttributes,
        common: Mapping[str, str],
        *,
        parent: RecordedSpan | None = None,
        traceparent: str = "",
    ) -> Span:
        """Start a span; `common` are attributes that all spans below it have too."""
        every = {"openinference.span.kind": kind.value, **self.bounded({**common, **attributes})}
        recorded = self.recorder.start(name, every, parent=parent, traceparent=traceparent)
        return _TracedSpan(self, recorded, common)

    def bounded(self, attributes: SpanAttributes) -> SpanAttributes:
        """Return attributes whose texts are no longer than they may be."""
        return {
            name: cut(value, self.max_attribute_chars) if isinstance(value, str) else value
            for name, value in attributes.items()
        }


class _TracedSpan:
    """A span that a recorder records."""

    def __init__(self, tracing: Tracing, recorded: RecordedSpan, common: Mapping[str, str]) -> None:
        self._tracing = tracing
        self._recorded = recorded
        self._common = common
        self._is_ended = False
        self._outputs: list[object] = []
        self._output_chars = 0
        self._entered: tuple[Token[Span], AbstractContextManager[object]] | None = None

    @property
    def is_recording(self) -> bool:
        return self._recorded.is_recording

    @property
    def records_payloads(self) -> bool:
        return self._tracing.record_payloads and self._recorded.is_recording

    @property
    def traceparent(self) -> str:
        return self._recorded.traceparent

    def child(self, name: str, kind: OpenInferenceSpanKindValues, attributes: SpanAttributes) -> Span:
        return self._tracing.started(name, kind, attributes, self._common, parent=self._recorded)

    def set(self, attributes: SpanAttributes) -> None:
        self._recorded.set(self._tracing.bounded(attributes))

    def input(self, value: object) -> None:
        if self.records_payloads:
            text, mime_type = payload(value, self._tracing.max_attribute_chars)
            self._recorded.set({"input.value": text, "input.mime_type": mime_type})

    def output(self, value: object) -> None:
        # Kept until the end, where it is known whether there is one or a list; no more than the attribute can hold.
        if self.records_payloads and self._output_chars <= self._tracing.max_attribute_chars:
            text, _ = payload(value, self._tracing.max_attribute_chars)
            self._output_chars += len(text)
            self._outputs.append(value)

    def fail(self, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            self._recorded.set({"afl.pubsub.cancelled": True})
        else:
            text = exception_text(error) if self.records_payloads else _text_without_payload(error)
            self._recorded.fail(exception_class(error), cut(text, self._tracing.max_attribute_chars))

    def end(self) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        if self._outputs:
            given = self._outputs[0] if len(self._outputs) == 1 else self._outputs
            text, mime_type = payload(given, self._tracing.max_attribute_chars)
            self._recorded.set({"output.value": text, "output.mime_type": mime_type})
        self._recorded.end()

    def __enter__(self) -> Span:
        recorded = self._recorded.current()
        recorded.__enter__()
        self._entered = (current.set(self), recorded)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        if self._entered is not None:
            token, recorded = self._entered
            self._entered = None
            current.reset(token)
            recorded.__exit__(None, None, None)
        if error is not None:
            self.fail(error)
        self.end()


def _text_without_payload(error: BaseException) -> str:
    """Return the text of an error without what a program's own error says: it may quote what went in."""
    if isinstance(error, NodeFailed):
        cause = "" if error.__cause__ is None else f": {exception_class(error.__cause__)}"
        return f"node {error.node} failed{cause}"
    return exception_text(error) if isinstance(error, AFLError) else ""
